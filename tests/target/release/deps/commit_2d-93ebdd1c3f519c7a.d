/work/main/tests/target/release/deps/commit_2d-93ebdd1c3f519c7a.d: selftests/src/bin/commit-2d.rs

/work/main/tests/target/release/deps/libcommit_2d-93ebdd1c3f519c7a.rmeta: selftests/src/bin/commit-2d.rs

selftests/src/bin/commit-2d.rs:
