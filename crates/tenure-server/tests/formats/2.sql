-- A database of the second format: of the lease `job` the terms of c1 and c2 have ended, of which one is
-- in its place, and c3 leads; the lease `gone` was deleted.
PRAGMA application_id = 1952804466;
PRAGMA user_version = 2;
CREATE TABLE leases (
        namespace TEXT NOT NULL,
        lease TEXT NOT NULL,
        state TEXT NOT NULL,
        holder TEXT,
        epoch INTEGER,
        granted_at_ms INTEGER,
        duration_ms INTEGER,
        lease_id BLOB,
        break_ms INTEGER,
        lock_delay_ms INTEGER,
        metadata TEXT NOT NULL,
        reserved_for TEXT,
        reserved_ms INTEGER,
        retired BLOB NOT NULL,
        revision INTEGER NOT NULL,
        crc INTEGER NOT NULL,
        PRIMARY KEY (namespace, lease)
    ) STRICT, WITHOUT ROWID;
INSERT INTO "leases" VALUES('ns','job','leased','c3',1795314398843,1795314398843,60000,X'6F1C9A643A524C0E9D43000000000003',NULL,0,'{"address":"http://a:1"}',NULL,NULL,X'6F1C9A643A524C0E9D430000000000016F1C9A643A524C0E9D43000000000002',6,1641062996);
CREATE TABLE meta (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        revision INTEGER NOT NULL,
        floor INTEGER,
        row_count INTEGER NOT NULL,
        digest INTEGER NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT;
INSERT INTO "meta" VALUES(1,9,1795314398850,3,3083470152,1654755832);
CREATE TABLE terms (
        namespace TEXT NOT NULL,
        lease TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        holder TEXT NOT NULL,
        began_at_ms INTEGER NOT NULL,
        ended_at_ms INTEGER,
        end TEXT,
        reason TEXT,
        crc INTEGER NOT NULL,
        PRIMARY KEY (namespace, lease, epoch)
    ) STRICT, WITHOUT ROWID;
INSERT INTO "terms" VALUES('ns','job',1795314398810,'c1',1795314398810,1795314398819,'released',NULL,162145762);
CREATE TABLE recent_terms (
        number INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL,
        lease TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        holder TEXT NOT NULL,
        began_at_ms INTEGER NOT NULL,
        ended_at_ms INTEGER,
        end TEXT,
        reason TEXT,
        crc INTEGER NOT NULL
    ) STRICT;
INSERT INTO "recent_terms" VALUES(1,'ns','job',1795314398827,'c2',1795314398827,1795314398835,'released',NULL,3752887038);
