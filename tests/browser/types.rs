//! The scripts of the page are checked by the compiler of TypeScript, against the types of the API
//! that `docs/openapi.json` describes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenure_tests::needs;
use tenure_tests::process::output;

use crate::page::node_modules;

const SCRIPTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/tenure-server/src/ui"
);
const API: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");

/// A folder with a copy of the scripts, and what the compiler needs.
struct Project {
    folder: tempfile::TempDir,
    modules: PathBuf,
}

impl Project {
    fn new(test: &str) -> Option<Self> {
        let modules = node_modules(test)?;
        let has_node = needs::has_program("node");
        if !needs::can_run(test, "the program node", has_node) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let files = fs::read_dir(SCRIPTS).expect("the scripts");
        for file in files {
            let path = file.expect("a file").path();
            if path
                .extension()
                .is_some_and(|extension| extension == "js" || extension == "ts")
            {
                let name = path.file_name().expect("a name");
                fs::copy(&path, folder.path().join(name)).expect("a copy");
            }
        }
        let api = folder.path().join("openapi.d.ts");
        let generated = Command::new("node")
            .arg(modules.join("openapi-typescript/bin/cli.js"))
            .args([Path::new(API), Path::new("--output"), &api])
            .output();
        let generated = generated.expect("the generator");
        assert!(generated.status.success(), "{generated:?}");
        let project = Self { folder, modules };
        project.write("agrees.ts", include_str!("agrees.ts"));
        project.write("tsconfig.json", include_str!("tsconfig.json"));
        Some(project)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("a file");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect("a file")
    }

    /// Compiles, and returns the errors.
    fn errors(&self) -> String {
        let mut compiler = Command::new("node");
        compiler.arg(self.modules.join("typescript/bin/tsc"));
        compiler.arg("--project").arg(self.folder.path());
        let compiled = output(&mut compiler);
        let text = String::from_utf8_lossy(&compiled.stdout).into_owned();
        assert_eq!(compiled.status.success(), text.is_empty(), "{compiled:?}");
        text
    }
}

#[test]
fn the_scripts_have_no_type_error_and_agree_with_the_api() {
    let test = "the_scripts_have_no_type_error_and_agree_with_the_api";
    let Some(project) = Project::new(test) else {
        return;
    };
    assert_eq!(project.errors(), "");

    // A field of the API that has another name is an error, and so is a wrong type in a script.
    let api = project.read("openapi.d.ts");
    project.write(
        "openapi.d.ts",
        &api.replace("recent_terms", "terms_of_late"),
    );
    let script = project.read("dom.js");
    project.write("dom.js", &format!("{script}\n'text'.missing();\n"));
    let errors = project.errors();
    assert!(errors.contains("'recent_terms' is missing"), "{errors}");
    assert!(
        errors.contains("dom.js") && errors.contains("'missing'"),
        "{errors}"
    );
}
