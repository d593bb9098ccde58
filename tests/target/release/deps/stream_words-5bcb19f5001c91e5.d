/work/main/tests/target/release/deps/stream_words-5bcb19f5001c91e5.d: selftests/src/bin/stream-words.rs

/work/main/tests/target/release/deps/libstream_words-5bcb19f5001c91e5.rmeta: selftests/src/bin/stream-words.rs

selftests/src/bin/stream-words.rs:
