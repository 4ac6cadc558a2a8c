//! Documents of other protocols.

use axum::body::Bytes;

use super::*;
use crate::engine::Document;
use crate::model::DocumentChange;

fn put_document(engine: &mut Embedded, name: &str, content: Option<&'static str>, revision: u64) {
    let change = DocumentChange {
        name: name.into(),
        revision,
        content: content.map(Bytes::from),
    };
    let set = ChangeSet {
        documents: vec![change],
        ..ChangeSet::default()
    };
    commit_sets(engine, &[set]).unwrap();
}

#[test]
fn documents_survive_a_restart_and_their_batches_do_not_pile_up() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    put_document(&mut engine, "a", Some("old"), 2);
    put_document(&mut engine, "b", Some("gone"), 3);
    put_document(&mut engine, "a", Some("new"), 4);
    put_document(&mut engine, "b", None, 5);
    assert_eq!(batch_count(&engine), 4);
    engine.checkpoint(Load::Idle).unwrap();
    assert_eq!(batch_count(&engine), 0);
    // While the tables lack a change of a lease, the batch of that change stays.
    commit(&mut engine, &[write(6, 10)]).unwrap();
    put_document(&mut engine, "c", Some(""), 7);
    assert_eq!(batch_count(&engine), 2);
    drop(engine);

    let (loaded, engine) = open(folder.path(), MOST).unwrap();
    let mut documents = loaded.documents;
    documents.sort_by(|a, b| a.name.cmp(&b.name));
    let document = |name: &str, revision, content: &'static str| Document {
        name: name.into(),
        revision,
        content: content.into(),
    };
    assert_eq!(documents, [document("a", 4, "new"), document("c", 7, "")]);
    assert_eq!(loaded.leases.len(), 1);
    drop(engine);
    for change in [
        "UPDATE documents SET content = x'00' WHERE name = 'a'",
        "UPDATE documents SET name = 'b' WHERE name = 'a'",
        "DELETE FROM documents WHERE name = 'c'",
    ] {
        let connection = Connection::open(folder.path().join("leases.db")).unwrap();
        let transaction = connection.unchecked_transaction().unwrap();
        transaction.execute_batch(change).unwrap();
        let path = folder.path().join("leases.db");
        let checked = check::load(&transaction, &path, LeaseList::new()).map(|_| ());
        assert!(
            matches!(checked, Err(OpenError::Damaged { .. })),
            "{change}"
        );
    }
}
