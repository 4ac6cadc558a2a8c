//! The tables, and the views for people.

use tenure_register::postgres::PostgresSchema;

use crate::engine::shared::log::LogError;

/// Returns the schema with this name.
///
/// # Errors
///
/// PostgreSQL permits no such name.
pub(super) fn schema(name: &str) -> Result<PostgresSchema, LogError> {
    PostgresSchema::new(name, &["head", "log", "place"], [TABLES, VIEWS].concat())
}

/// A head is replaced all the time, so its page has room for many versions of it. Its record is kept
/// as bytes, because they are compared exactly; the view `clusters` shows it. The values of places
/// are kept as text and not as JSON, because a checksum covers them as they are written.
const TABLES: &str = "
    create table if not exists {s}.head (
        cluster text not null,
        shard integer not null,
        record bytea not null,
        primary key (cluster, shard)
    ) with (fillfactor = 10);
    create table if not exists {s}.log (
        cluster text not null,
        shard integer not null,
        sequence bigint not null,
        batch bytea not null,
        primary key (cluster, shard, sequence)
    );
    create table if not exists {s}.place (
        cluster text not null,
        shard integer not null,
        key text collate \"C\" not null,
        value text not null,
        primary key (cluster, shard, key)
    ) with (fillfactor = 80);
";

/// The columns have the names of the views of the embedded engine. Lease ids are secrets, so the
/// views omit them. The rows of `leases` and `terms` lag behind the log by about a second.
const VIEWS: &str = "
    create or replace view {s}.clusters as
    select cluster, shard, r->>'state' as state, r->'owner'->>'name' as owner,
        r->'owner'->>'address' as address, (r->>'generation')::bigint as generation,
        (r->>'sequence')::bigint as sequence, (r->>'revision')::bigint as revision,
        (r->>'leases')::bigint as leases, r->>'at' as at, r->>'version' as version, r as record
    from (select cluster, shard, convert_from(record, 'UTF8')::json as r from {s}.head) as heads;

    create or replace view {s}.leases as
    select cluster, shard, split_part(key, '/', 3) as namespace, split_part(key, '/', 4) as lease,
        v->>'state' as state, v->>'holder' as holder, v->>'owner' as owner,
        (v->>'epoch')::bigint as epoch,
        to_timestamp((v->>'granted_at_ms')::bigint / 1000.0) as granted_at,
        (v->>'duration_ms')::bigint as duration_ms, (v->>'break_ms')::bigint as break_ms,
        (v->>'lock_delay_ms')::bigint as lock_delay_ms, v->>'metadata' as metadata,
        v->>'reserved_for' as reserved_for, (v->>'reserved_ms')::bigint as reserved_ms,
        v->>'without_store' as without_store, (v->>'revision')::bigint as revision
    from (select cluster, shard, key, value::json as v from {s}.place
        where key >= 'lease/' and key < 'lease0') as places;

    create or replace view {s}.terms as
    with ended as (
        select cluster, shard, split_part(key, '/', 2) as namespace,
            split_part(key, '/', 3) as lease, (term->>0)::bigint as epoch, term->>1 as holder,
            (term->>2)::bigint as began_at_ms, (term->>3)::bigint as ended_at_ms,
            term->>4 as \"end\", term->>5 as reason, term->>6 as owner, term->>7 as without_store
        from {s}.place, json_array_elements(value::json->'terms') as terms(term)
        where key >= 'term/' and key < 'term0'
    ), all_terms as (
        select * from ended
        union all
        select cluster, shard, namespace, lease, epoch, holder,
            (extract(epoch from granted_at) * 1000)::bigint, null, null, null, owner, without_store
        from {s}.leases
        where state in ('leased', 'breaking') and not exists (
            select from ended where ended.cluster = leases.cluster and ended.shard = leases.shard
                and ended.namespace = leases.namespace and ended.lease = leases.lease
                and ended.epoch = leases.epoch)
    )
    select cluster, shard, namespace, lease, epoch, holder, owner,
        to_timestamp(began_at_ms / 1000.0) as began_at,
        to_timestamp(ended_at_ms / 1000.0) as ended_at, \"end\", reason, without_store
    from all_terms order by cluster, shard, namespace, lease, epoch;
";

/// Replaces the record of the head, which it compares as a whole.
///
/// PostgreSQL evaluates the `where` again after a wait for the lock of the row, on the newest
/// version of the row. The rest of the statement sees the snapshot of its begin. The two agree
/// whenever the update succeeds: the newest version has the expected record, so no append was
/// applied after the one that wrote it; and the server has seen that append before it sent this
/// statement, so the snapshot contains all of it. After a refusal they may differ: the snapshot may
/// still show the expected record. So a refusal reads the head with another statement.
macro_rules! replace_head {
    () => {
        "update {s}.head set record = $2 where cluster = $1 and shard = 0 and record = $3"
    };
}

/// Creates the head. If another server creates it at the same time, this waits for that server.
macro_rules! insert_head {
    () => {
        "insert into {s}.head (cluster, shard, record) select $1::text, 0, $2::bytea where $3::bytea is null
            on conflict do nothing"
    };
}

/// Everything else of an append, if `mine` has a row. Batches between the former and the new begin
/// of the log are deleted. The lower limit keeps the deletion from passing over the index entries of
/// all batches that were deleted before.
macro_rules! with_content {
    ($head:expr) => {
        concat!(
            "with mine as (",
            $head,
            " returning 1 as done),
            batch as (
                insert into {s}.log (cluster, shard, sequence, batch)
                select $1, 0, $4::bigint, $5::bytea from mine where $4 is not null
                on conflict (cluster, shard, sequence) do update set batch = excluded.batch),
            dropped as (
                delete from {s}.log using mine
                where cluster = $1 and shard = 0 and sequence >= $6 and sequence < $7),
            put as (
                insert into {s}.place (cluster, shard, key, value)
                select $1, 0, put.key, put.value
                from mine, unnest($8::text[], $9::text[]) as put(key, value)
                on conflict (cluster, shard, key) do update set value = excluded.value),
            deleted as (
                delete from {s}.place using mine
                where cluster = $1 and shard = 0 and key = any($10::text[]))
            select count(*) from mine"
        )
    };
}

/// The prepared statements of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Query {
    Head,
    /// An append that has only a head.
    Beat,
    Append,
    /// The first append of a log.
    First,
    Confirm,
    Batches,
    Places,
    PlacesDescending,
}

/// The number of queries.
pub(super) const QUERIES: usize = Query::PlacesDescending as usize + 1;

impl Query {
    pub(super) const fn sql(self) -> &'static str {
        match self {
            Self::Head => "select record from {s}.head where cluster = $1 and shard = 0",
            Self::Beat => concat!(
                "with mine as (",
                replace_head!(),
                " returning 1 as done) select count(*) from mine"
            ),
            Self::Append => with_content!(replace_head!()),
            Self::First => with_content!(insert_head!()),
            // Writes the head unchanged. See `PostgresLog::refused`.
            Self::Confirm => {
                "update {s}.head set record = record where cluster = $1 and shard = 0
                    returning record"
            }
            // At most 4 MiB, and at least one.
            Self::Batches => {
                "select sequence, batch from (
                    select sequence, batch,
                        sum(octet_length(batch)) over (order by sequence) - octet_length(batch)
                            as before
                    from (select sequence, batch from {s}.log
                        where cluster = $1 and shard = 0 and sequence > $2
                        order by sequence limit 1000) as next) as page
                where before < 4194304 order by sequence"
            }
            Self::Places => {
                "select key, value from {s}.place
                where cluster = $1 and shard = 0 and key >= $2 and key < $3
                order by key limit $4"
            }
            Self::PlacesDescending => {
                "select key, value from {s}.place
                where cluster = $1 and shard = 0 and key >= $2 and key < $3
                order by key desc limit $4"
            }
        }
    }
}
