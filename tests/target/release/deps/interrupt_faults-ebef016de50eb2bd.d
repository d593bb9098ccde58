/work/main/tests/target/release/deps/interrupt_faults-ebef016de50eb2bd.d: selftests/src/bin/interrupt-faults.rs

/work/main/tests/target/release/deps/libinterrupt_faults-ebef016de50eb2bd.rmeta: selftests/src/bin/interrupt-faults.rs

selftests/src/bin/interrupt-faults.rs:
