/work/main/tests/target/release/deps/version_identity-faa33c3ff1bb6947.d: selftests/src/bin/version-identity.rs

/work/main/tests/target/release/deps/libversion_identity-faa33c3ff1bb6947.rmeta: selftests/src/bin/version-identity.rs

selftests/src/bin/version-identity.rs:
