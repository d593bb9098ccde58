/work/main/tests/target/release/deps/commit_rs-7e9aab0400474e3a.d: selftests/src/bin/commit-rs.rs

/work/main/tests/target/release/deps/libcommit_rs-7e9aab0400474e3a.rmeta: selftests/src/bin/commit-rs.rs

selftests/src/bin/commit-rs.rs:
