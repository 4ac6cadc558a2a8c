//! The scripts of the page are checked by the compiler of TypeScript, against the types of the API
//! that `docs/openapi.json` describes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
            if path.extension().is_some_and(|extension| extension == "js") {
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
        Some(project)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("a file");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect("a file")
    }

    fn compile(&self) -> Output {
        let mut compiler = Command::new("node");
        compiler.current_dir(self.folder.path());
        compiler.arg(self.modules.join("typescript/bin/tsc"));
        compiler.args(["--noEmit", "--allowJs", "--checkJs", "--strict"]);
        compiler.args(["--noUncheckedIndexedAccess", "--target", "es2022"]);
        compiler.args(["--module", "esnext", "--moduleResolution", "bundler"]);
        compiler.args(["--lib", "es2022,dom,dom.iterable,dom.asynciterable"]);
        compiler.args(["--types", "", "app.js", "agrees.ts"]);
        output(&mut compiler)
    }
}

#[test]
fn the_scripts_have_no_type_error_and_agree_with_the_api() {
    let test = "the_scripts_have_no_type_error_and_agree_with_the_api";
    let Some(project) = Project::new(test) else {
        return;
    };
    let compiled = project.compile();
    let text = String::from_utf8_lossy(&compiled.stdout).into_owned();
    assert!(compiled.status.success(), "{text}");

    // A field of the API that has another name is an error, and so is a wrong type in a script.
    let api = project.read("openapi.d.ts");
    let renamed = api.replace("recent_terms", "terms_of_late");
    assert_ne!(api, renamed);
    project.write("openapi.d.ts", &renamed);
    let compiled = project.compile();
    let text = String::from_utf8_lossy(&compiled.stdout).into_owned();
    assert!(
        !compiled.status.success() && text.contains("recent_terms"),
        "{text}"
    );
    project.write("openapi.d.ts", &api);
    let script = project.read("app.js");
    project.write(
        "app.js",
        &format!("{script}\n/** @type {{number}} */ export const wrong = 'text';\n"),
    );
    let compiled = project.compile();
    let text = String::from_utf8_lossy(&compiled.stdout).into_owned();
    assert!(
        !compiled.status.success() && text.contains("app.js"),
        "{text}"
    );
}
