/work/main/tests/target/release/deps/completion-2d275204c7a20cf3.d: selftests/src/bin/completion.rs

/work/main/tests/target/release/deps/libcompletion-2d275204c7a20cf3.rmeta: selftests/src/bin/completion.rs

selftests/src/bin/completion.rs:
