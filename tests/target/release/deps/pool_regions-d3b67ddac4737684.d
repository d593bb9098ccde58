/work/main/tests/target/release/deps/pool_regions-d3b67ddac4737684.d: selftests/src/bin/pool-regions.rs

/work/main/tests/target/release/deps/libpool_regions-d3b67ddac4737684.rmeta: selftests/src/bin/pool-regions.rs

selftests/src/bin/pool-regions.rs:
