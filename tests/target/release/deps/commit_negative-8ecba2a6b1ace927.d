/work/main/tests/target/release/deps/commit_negative-8ecba2a6b1ace927.d: selftests/src/bin/commit-negative.rs

/work/main/tests/target/release/deps/libcommit_negative-8ecba2a6b1ace927.rmeta: selftests/src/bin/commit-negative.rs

selftests/src/bin/commit-negative.rs:
