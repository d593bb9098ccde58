/work/main/tests/target/release/deps/commit_stale-c6166aaa46c5bb11.d: selftests/src/bin/commit-stale.rs

/work/main/tests/target/release/deps/libcommit_stale-c6166aaa46c5bb11.rmeta: selftests/src/bin/commit-stale.rs

selftests/src/bin/commit-stale.rs:
