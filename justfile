# Short names for the commands of CONTRIBUTING.md. `just` lists them.

_default:
    @just --list --unsorted

# the whole gate, as CI runs it
gate:
    .ci/run

# lints, rules, unit tests and the command: five minutes on two cores after a first build, without root
quick: lint
    cargo test --locked -p tenure-core -p tenure-register -p tenure -p tenure-server -p tenure-sim -p tenure-cli --lib --bins
    cargo test --locked -p tenure-tests --test modules --test vocabulary --test dependencies --test command

# format the code
fmt:
    cargo fmt --all

# lint with warnings as errors
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# the size of the project beside its budget
size:
    .ci/size

# test the pure core: the rules and the state machines
core *args:
    cargo test -p tenure-core --locked {{ args }}

# test the library
library *args:
    cargo test -p tenure --all-features --locked {{ args }}

# test the store
store *args:
    cargo test -p tenure-server --locked {{ args }}

# test the simulator, and the strategies of the product in it
sim *args:
    cargo test -p tenure-sim --locked {{ args }}

# test older algorithms, papers and comparisons
lab *args:
    cargo test -p tenure-lab --locked {{ args }}

# test that the models and the simulator catch each mutation
mutations *args:
    .ci/mutations {{ args }}

# lint and test each feature alone, the export of traces, and the mutations
features:
    .ci/features

# test whole systems of real processes, such as `just system --test command`
system *args:
    cargo test -p tenure-tests --locked {{ args }}

# all tests
test:
    cargo test --workspace --locked

# search random fault schedules for violations, such as `just check --members 3`
check *args:
    cargo run --release --locked -p tenure-lab -- compare check {{ args }}

# run a store under random faults, such as `just torture --minutes 10 --seed 7`
torture *args:
    cargo build --locked --bin tenure
    cargo run --locked -p tenure-tests --bin tenure-torture -- {{ args }}

# benchmarks of the store, such as `just bench --bench renewals`
bench *args:
    cargo bench -p tenure-server {{ args }}

# the documentation of the crates, with warnings as errors
doc:
    RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked

# licences, advisories and sources of dependencies
deny:
    cargo deny check

# the demo
demo *args:
    cargo run --release --locked --bin tenure -- demo {{ args }}
