/work/main/tests/target/release/deps/vendor_answers-82c2fd54266c5c60.d: selftests/src/bin/vendor-answers.rs

/work/main/tests/target/release/deps/libvendor_answers-82c2fd54266c5c60.rmeta: selftests/src/bin/vendor-answers.rs

selftests/src/bin/vendor-answers.rs:
