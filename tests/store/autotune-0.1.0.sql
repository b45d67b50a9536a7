PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE autotune_schema (
	version INTEGER NOT NULL,
	PRIMARY KEY (version)
);
INSERT INTO autotune_schema VALUES(1);
CREATE TABLE runs (
	id TEXT NOT NULL,
	"key" TEXT NOT NULL,
	workspace TEXT NOT NULL,
	command JSON NOT NULL,
	problem JSON NOT NULL,
	target TEXT NOT NULL,
	device TEXT NOT NULL,
	seed INTEGER NOT NULL,
	status TEXT NOT NULL,
	started TEXT NOT NULL,
	ended TEXT,
	space_size INTEGER,
	result JSON,
	PRIMARY KEY (id)
);
INSERT INTO runs VALUES('20261116-065151-7a6f55','73f23306ae30791b','','["autotune", "gemm", "--shape", "64x64x64", "--dtype", "f32", "--trials", "4", "--budget", "60s"]','{"op": "gemm", "name": "gemm_64x64x64_f32_f32_nn", "flops": 524288, "bytes": 49152}','cpu','local-task',0,'finished','2026-11-16T06:51:51.498201+00:00','2026-11-16T06:52:56.840828+00:00',20819,'{"schema": 1, "run": "20261116-065151-7a6f55", "problem": {"op": "gemm", "name": "gemm_64x64x64_f32_f32_nn", "flops": 524288, "bytes": 49152}, "target": "cpu", "device": "local-task", "verdict": "inconclusive", "reason": "stopped after 0 blocks, before it was settled", "baseline": {"us": 24.035538725079373, "flags": [], "route": "plain"}, "stock": {"us": 24.035538725079373, "flags": [], "route": "plain"}, "best": {"us": 24.035538725079373, "flags": [], "route": "plain", "config": {}, "kind": "codegen", "candidate": "baseline"}, "speedup": null, "speedup_over_stock": null, "spec": null, "flagfile": null, "carrier": null, "counts": {"space": 20819, "asked": 7, "built": 7, "cached": 0, "duplicate": 0, "checked": 7, "timed": 7, "failed": {"compile-error": 0, "compile-timeout": 0, "not-applied": 0, "wrong-result": 0, "run-error": 0, "run-timeout": 0}}, "seconds": {"space": 4.902, "build": 58.017, "time": 4.041, "search": 0.202, "total": 70.254}, "environment": {"iree": "3.13.0", "iree_runtime": "3.13.0", "autotune": "0.1.0", "python": "3.11.7", "host": "vm", "user": "somebody", "kernel": "6.18.44-fc-v445", "machine": "x86_64", "cpu": "Intel(R) Xeon(R) Processor @ 2.50GHz", "cores": 2, "governor": "", "mhz": 2499.998, "load": 7.45, "device": "local-task", "device_name": "Intel(R) Xeon(R) Processor @ 2.50GHz", "driver": "", "device_mhz": null, "time": "2026-11-16T06:51:51+00:00"}, "notes": ["this device is noisy: the baseline against itself spreads by 30.6%. Repetitions are lengthened to 40 ms; a quieter machine would tell small gains apart."]}');
INSERT INTO runs VALUES('20261116-065318-0dd9af','9c685740c4a49b3e','','["autotune", "gemm", "--shape", "256x256x256", "--dtype", "f16", "--target", "gfx942", "--device", "none", "--trials", "2", "--budget", "60s"]','{"op": "gemm", "name": "gemm_256x256x256_f16_f32_nn", "flops": 33554432, "bytes": 524288}','gfx942','none',0,'finished','2026-11-16T06:53:18.523480+00:00','2026-11-16T06:53:28.619289+00:00',40440,'{"schema": 1, "run": "20261116-065318-0dd9af", "problem": {"op": "gemm", "name": "gemm_256x256x256_f16_f32_nn", "flops": 33554432, "bytes": 524288}, "target": "gfx942", "device": "none", "verdict": "compile-only", "reason": "no device: built and proven, not timed", "baseline": {"us": null, "flags": [], "route": "plain"}, "stock": {"us": null, "flags": []}, "best": null, "speedup": null, "speedup_over_stock": null, "spec": null, "flagfile": null, "carrier": null, "counts": {"space": 40440, "asked": 3, "built": 3, "cached": 0, "duplicate": 1, "checked": 0, "timed": 0, "failed": {"compile-error": 0, "compile-timeout": 0, "not-applied": 0, "wrong-result": 0, "run-error": 0, "run-timeout": 0}}, "seconds": {"space": 3.385, "build": 9.93, "time": 0.0, "search": 0.0, "total": 13.497}, "environment": {"iree": "3.13.0", "iree_runtime": "3.13.0", "autotune": "0.1.0", "python": "3.11.7", "host": "vm", "user": "somebody", "kernel": "6.18.44-fc-v445", "machine": "x86_64", "cpu": "Intel(R) Xeon(R) Processor @ 2.50GHz", "cores": 2, "governor": "", "mhz": 2499.998, "load": 8.24, "device": "none", "device_name": "", "driver": "", "device_mhz": null, "time": "2026-11-16T06:53:18+00:00"}, "notes": []}');
CREATE TABLE environment (
	id INTEGER NOT NULL,
	run TEXT NOT NULL,
	document JSON NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(run) REFERENCES runs (id)
);
INSERT INTO environment VALUES(1,'20261116-065151-7a6f55','{"iree": "3.13.0", "iree_runtime": "3.13.0", "autotune": "0.1.0", "python": "3.11.7", "host": "vm", "user": "somebody", "kernel": "6.18.44-fc-v445", "machine": "x86_64", "cpu": "Intel(R) Xeon(R) Processor @ 2.50GHz", "cores": 2, "governor": "", "mhz": 2499.998, "load": 7.45, "device": "local-task", "device_name": "Intel(R) Xeon(R) Processor @ 2.50GHz", "driver": "", "device_mhz": null, "time": "2026-11-16T06:51:51+00:00"}');
INSERT INTO environment VALUES(2,'20261116-065318-0dd9af','{"iree": "3.13.0", "iree_runtime": "3.13.0", "autotune": "0.1.0", "python": "3.11.7", "host": "vm", "user": "somebody", "kernel": "6.18.44-fc-v445", "machine": "x86_64", "cpu": "Intel(R) Xeon(R) Processor @ 2.50GHz", "cores": 2, "governor": "", "mhz": 2499.998, "load": 8.24, "device": "none", "device_name": "", "driver": "", "device_mhz": null, "time": "2026-11-16T06:53:18+00:00"}');
CREATE TABLE candidates (
	id INTEGER NOT NULL,
	run TEXT NOT NULL,
	ordinal INTEGER NOT NULL,
	config_key TEXT NOT NULL,
	config JSON NOT NULL,
	kind TEXT NOT NULL,
	route TEXT NOT NULL,
	state TEXT NOT NULL,
	duplicate_of INTEGER,
	failure TEXT NOT NULL,
	stderr TEXT NOT NULL,
	error FLOAT,
	us FLOAT,
	spec TEXT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (run, ordinal),
	FOREIGN KEY(run) REFERENCES runs (id),
	FOREIGN KEY(duplicate_of) REFERENCES candidates (id)
);
INSERT INTO candidates VALUES(1,'20261116-065151-7a6f55',0,'44136fa355b3','{}','baseline','plain','timed',NULL,'','',1.4243405952115141281e-07,24.035538725079373279,'');
INSERT INTO candidates VALUES(2,'20261116-065151-7a6f55',1,'44136fa355b3','{}','stock','data-tiling','timed',NULL,'','',1.4243405952115141281e-07,57.82789106733423523,'');
INSERT INTO candidates VALUES(3,'20261116-065151-7a6f55',2,'44136fa355b3','{}','stock','data-tiling+ukernels','timed',NULL,'','',1.4243405952115141281e-07,47.605514044605911293,'');
INSERT INTO candidates VALUES(4,'20261116-065151-7a6f55',3,'44136fa355b3','{}','stock','data-tiling+inner-tiled','timed',NULL,'','',1.4243405952115141281e-07,125.41994638245631677,'');
INSERT INTO candidates VALUES(5,'20261116-065151-7a6f55',4,'44136fa355b3','{}','stock','global-data-tiling','timed',NULL,'','',1.4243405952115141281e-07,81.659883398196086547,'');
INSERT INTO candidates VALUES(6,'20261116-065151-7a6f55',5,'44136fa355b3','{}','stock','global-data-tiling+ukernels','timed',NULL,'','',1.4243405952115141281e-07,72.381081699859350919,'');
INSERT INTO candidates VALUES(7,'20261116-065151-7a6f55',6,'44136fa355b3','{}','stock','global-data-tiling+inner-tiled','timed',NULL,'','',1.4243405952115141281e-07,105.71435574402516977,'');
INSERT INTO candidates VALUES(8,'20261116-065318-0dd9af',0,'44136fa355b3','{}','baseline','plain','built',NULL,'','',NULL,NULL,'');
INSERT INTO candidates VALUES(9,'20261116-065318-0dd9af',1,'b4afd0315a98','{"pipeline": "TileAndFuse", "sg_0": 2, "sg_1": 4, "red_2": 8, "mma": "MFMA_F32_16x16x16_F16", "sg_m_cnt": 2, "sg_n_cnt": 2, "no_reduce_shared_memory_bank_conflicts": 0, "prefetch_num_stages": 2, "waves_per_eu": 0, "wg_0": -1, "wg_1": -1, "reorder_workgroups": -1}','codegen','plain','duplicate',8,'','',NULL,NULL,'');
INSERT INTO candidates VALUES(10,'20261116-065318-0dd9af',2,'ddf0607264b3','{"pipeline": "VectorDistribute", "sg_0": -1, "sg_1": -1, "red_2": 64, "mma": "MFMA_F32_16x16x16_F16", "sg_m_cnt": 2, "sg_n_cnt": 1, "no_reduce_shared_memory_bank_conflicts": 0, "prefetch_num_stages": 0, "waves_per_eu": 0, "wg_0": 64, "wg_1": 256, "reorder_workgroups": "none"}','codegen','plain','built',NULL,'','',NULL,NULL,'');
CREATE TABLE verdicts (
	id INTEGER NOT NULL,
	run TEXT NOT NULL,
	verdict TEXT NOT NULL,
	document JSON NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(run) REFERENCES runs (id)
);
INSERT INTO verdicts VALUES(1,'20261116-065151-7a6f55','inconclusive','{"schema": 1, "run": "20261116-065151-7a6f55", "problem": {"op": "gemm", "name": "gemm_64x64x64_f32_f32_nn", "flops": 524288, "bytes": 49152}, "target": "cpu", "device": "local-task", "verdict": "inconclusive", "reason": "stopped after 0 blocks, before it was settled", "baseline": {"us": 24.035538725079373, "flags": [], "route": "plain"}, "stock": {"us": 24.035538725079373, "flags": [], "route": "plain"}, "best": {"us": 24.035538725079373, "flags": [], "route": "plain", "config": {}, "kind": "codegen", "candidate": "baseline"}, "speedup": null, "speedup_over_stock": null, "spec": null, "flagfile": null, "carrier": null, "counts": {"space": 20819, "asked": 7, "built": 7, "cached": 0, "duplicate": 0, "checked": 7, "timed": 7, "failed": {"compile-error": 0, "compile-timeout": 0, "not-applied": 0, "wrong-result": 0, "run-error": 0, "run-timeout": 0}}, "seconds": {"space": 4.902, "build": 58.017, "time": 4.041, "search": 0.202, "total": 70.254}, "environment": {"iree": "3.13.0", "iree_runtime": "3.13.0", "autotune": "0.1.0", "python": "3.11.7", "host": "vm", "user": "somebody", "kernel": "6.18.44-fc-v445", "machine": "x86_64", "cpu": "Intel(R) Xeon(R) Processor @ 2.50GHz", "cores": 2, "governor": "", "mhz": 2499.998, "load": 7.45, "device": "local-task", "device_name": "Intel(R) Xeon(R) Processor @ 2.50GHz", "driver": "", "device_mhz": null, "time": "2026-11-16T06:51:51+00:00"}, "notes": ["this device is noisy: the baseline against itself spreads by 30.6%. Repetitions are lengthened to 40 ms; a quieter machine would tell small gains apart."]}');
INSERT INTO verdicts VALUES(2,'20261116-065318-0dd9af','compile-only','{"schema": 1, "run": "20261116-065318-0dd9af", "problem": {"op": "gemm", "name": "gemm_256x256x256_f16_f32_nn", "flops": 33554432, "bytes": 524288}, "target": "gfx942", "device": "none", "verdict": "compile-only", "reason": "no device: built and proven, not timed", "baseline": {"us": null, "flags": [], "route": "plain"}, "stock": {"us": null, "flags": []}, "best": null, "speedup": null, "speedup_over_stock": null, "spec": null, "flagfile": null, "carrier": null, "counts": {"space": 40440, "asked": 3, "built": 3, "cached": 0, "duplicate": 1, "checked": 0, "timed": 0, "failed": {"compile-error": 0, "compile-timeout": 0, "not-applied": 0, "wrong-result": 0, "run-error": 0, "run-timeout": 0}}, "seconds": {"space": 3.385, "build": 9.93, "time": 0.0, "search": 0.0, "total": 13.497}, "environment": {"iree": "3.13.0", "iree_runtime": "3.13.0", "autotune": "0.1.0", "python": "3.11.7", "host": "vm", "user": "somebody", "kernel": "6.18.44-fc-v445", "machine": "x86_64", "cpu": "Intel(R) Xeon(R) Processor @ 2.50GHz", "cores": 2, "governor": "", "mhz": 2499.998, "load": 8.24, "device": "none", "device_name": "", "driver": "", "device_mhz": null, "time": "2026-11-16T06:53:18+00:00"}, "notes": []}');
CREATE TABLE builds (
	id INTEGER NOT NULL,
	candidate INTEGER NOT NULL,
	seconds FLOAT NOT NULL,
	cached BOOLEAN NOT NULL,
	binary TEXT NOT NULL,
	applied INTEGER NOT NULL,
	command JSON NOT NULL,
	vmfb TEXT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(candidate) REFERENCES candidates (id)
);
INSERT INTO builds VALUES(1,1,3.9122868519989424385,0,'13f89ed918d4c1513a30c66a9144af2764744221fbbcc343e928752219ee5842',0,'["/venv/iree-compile", "problem.mlir", "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-hal-benchmark-dispatch-repeat-count=1175", "--mlir-disable-threading", "--iree-hal-dump-executable-configurations-to=configurations", "--iree-hal-dump-executable-binaries-to=binaries", "-o", "module.vmfb"]','/cache/builds/v1/23/231074707e722b771a14084eba72d1aee440e2eb365b52fac7d925e5af8e9eed/module.vmfb');
INSERT INTO builds VALUES(2,2,17.165186853999330196,0,'c6dfceffc7da62602234a75edbb1ee55fdb2dd52bfe6e896d2b68e179905c918',0,'["/venv/iree-compile", "problem.mlir", "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-opt-data-tiling", "--iree-hal-benchmark-dispatch-repeat-count=1175", "--mlir-disable-threading", "--iree-hal-dump-executable-configurations-to=configurations", "--iree-hal-dump-executable-binaries-to=binaries", "-o", "module.vmfb"]','/cache/builds/v1/f8/f8e7826de5d938988b597c5091b03e0587b88133e08bb9776c737541a15122f1/module.vmfb');
INSERT INTO builds VALUES(3,3,12.545243991997267584,0,'823724585f9ad1bf7dcdfa940f39e26a3e198debd61083a84c91b26fda614813',0,'["/venv/iree-compile", "problem.mlir", "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-opt-data-tiling", "--iree-llvmcpu-enable-ukernels=all", "--iree-hal-benchmark-dispatch-repeat-count=1175", "--mlir-disable-threading", "--iree-hal-dump-executable-configurations-to=configurations", "--iree-hal-dump-executable-binaries-to=binaries", "-o", "module.vmfb"]','/cache/builds/v1/35/3583041dfd54741b427e2558e010f8c2f9ae218e7bbbe2963cdb0e96f123a70f/module.vmfb');
INSERT INTO builds VALUES(4,4,13.315689007999026216,0,'545c4c54162c6e8190eb98912a9dce6c4dcbbe767a6d563ee25ae0b883a16398',0,'["/venv/iree-compile", "problem.mlir", "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-opt-data-tiling", "--iree-llvmcpu-enable-inner-tiled", "--iree-hal-benchmark-dispatch-repeat-count=1175", "--mlir-disable-threading", "--iree-hal-dump-executable-configurations-to=configurations", "--iree-hal-dump-executable-binaries-to=binaries", "-o", "module.vmfb"]','/cache/builds/v1/fb/fb8388303608d06b86d11b660f577b0fb974a08959aa5e98d85ddd984b9c6ed2/module.vmfb');
INSERT INTO builds VALUES(5,5,15.619110850995639339,0,'f18b656fef14736e9132b3ff12f00b7984fa5b88c1bf7541e191d3b00448fa62',0,'["/venv/iree-compile", "problem.mlir", "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-global-opt-data-tiling", "--iree-hal-benchmark-dispatch-repeat-count=1175", "--mlir-disable-threading", "--iree-hal-dump-executable-configurations-to=configurations", "--iree-hal-dump-executable-binaries-to=binaries", "-o", "module.vmfb"]','/cache/builds/v1/eb/eb52c13b1eb368fb8285cade0a5f83582e1538d04bec04c0439c3eed3f7905c8/module.vmfb');
INSERT INTO builds VALUES(6,6,19.930965840001590549,0,'60e9b9734aa36bb951660087431b96785d99ccf920a67a65b795d0802b39f42c',0,'["/venv/iree-compile", "problem.mlir", "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-global-opt-data-tiling", "--iree-llvmcpu-enable-ukernels=all", "--iree-hal-benchmark-dispatch-repeat-count=1175", "--mlir-disable-threading", "--iree-hal-dump-executable-configurations-to=configurations", "--iree-hal-dump-executable-binaries-to=binaries", "-o", "module.vmfb"]','/cache/builds/v1/b4/b49e1912fbcb35a41c10af6ce1b303888a41ef639c34516d316a3f3c94365718/module.vmfb');
INSERT INTO builds VALUES(7,7,18.570948288004728965,0,'2e151af555ac3538e8a8ca27fcebff0c705e2c52778c79477fb016150cb2aa2c',0,'["/venv/iree-compile", "problem.mlir", "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-global-opt-data-tiling", "--iree-llvmcpu-enable-inner-tiled", "--iree-hal-benchmark-dispatch-repeat-count=1175", "--mlir-disable-threading", "--iree-hal-dump-executable-configurations-to=configurations", "--iree-hal-dump-executable-binaries-to=binaries", "-o", "module.vmfb"]','/cache/builds/v1/d9/d97abc6a2ecf48d88fdb75ca799943444df50cde219756510856ee586ea05186/module.vmfb');
INSERT INTO builds VALUES(8,8,4.4830328349999035708,0,'2e93d86c62853436ac9c55370abef16c51a882fa18620f6505501274aab40b97',0,'["/venv/iree-compile", "problem.mlir", "--iree-hal-target-device=hip", "--iree-rocm-target=gfx942", "--mlir-disable-threading", "--iree-hal-dump-executable-configurations-to=configurations", "--iree-hal-dump-executable-binaries-to=binaries", "-o", "module.vmfb"]','/cache/builds/v1/bb/bb0a9a10efefe54f28e78697464fdf6fa95dcf4eb19223e47737f5d8aed0c1a3/module.vmfb');
INSERT INTO builds VALUES(9,9,4.1585709229984786361,0,'2e93d86c62853436ac9c55370abef16c51a882fa18620f6505501274aab40b97',1,'["/venv/iree-compile", "problem.mlir", "--iree-hal-target-device=hip", "--iree-rocm-target=gfx942", "--iree-codegen-tuning-spec-path=spec.mlir", "--mlir-disable-threading", "--iree-hal-dump-executable-configurations-to=configurations", "--iree-hal-dump-executable-binaries-to=binaries", "-o", "module.vmfb"]','/cache/builds/v1/a2/a2adf3ba589c0a8730c006cfa4d371f1af1c3daef39354ef51d3bf430d92c520/module.vmfb');
INSERT INTO builds VALUES(10,10,5.2065635980034130625,0,'1c6c878f602f1765c495e765a012e02ee686ea83d78865e01c7cb1d0c726b2e7',1,'["/venv/iree-compile", "problem.mlir", "--iree-hal-target-device=hip", "--iree-rocm-target=gfx942", "--iree-codegen-tuning-spec-path=spec.mlir", "--mlir-disable-threading", "--iree-hal-dump-executable-configurations-to=configurations", "--iree-hal-dump-executable-binaries-to=binaries", "-o", "module.vmfb"]','/cache/builds/v1/28/28100e15b9d01fa1048e74add8d80aec57177ff6a35a64a66bb25fc59f21f000/module.vmfb');
CREATE TABLE timings (
	id INTEGER NOT NULL,
	candidate INTEGER NOT NULL,
	phase TEXT NOT NULL,
	block INTEGER NOT NULL,
	repetitions_us JSON NOT NULL,
	time TEXT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(candidate) REFERENCES candidates (id)
);
INSERT INTO timings VALUES(1,1,'screen',0,'[22.128048084151157, 42.42654893537389, 24.035538725079373]','2026-11-16T06:51:58.665330+00:00');
INSERT INTO timings VALUES(2,1,'drift',0,'[40.2524204184103, 38.003504686206185, 28.242384686699495, 43.8122076609053, 29.639155743891333]','2026-11-16T06:51:59.002072+00:00');
INSERT INTO timings VALUES(3,2,'screen',0,'[44.225456169558726, 71.48177958058906, 57.827891067334235]','2026-11-16T06:52:51.025316+00:00');
INSERT INTO timings VALUES(4,3,'screen',0,'[57.857965956382614, 47.60551404460591, 34.00153106454998]','2026-11-16T06:52:51.625376+00:00');
INSERT INTO timings VALUES(5,4,'screen',0,'[125.41994638245632]','2026-11-16T06:52:52.206002+00:00');
INSERT INTO timings VALUES(6,5,'screen',0,'[81.65988339819609]','2026-11-16T06:52:52.653108+00:00');
INSERT INTO timings VALUES(7,6,'screen',0,'[72.38108169985935]','2026-11-16T06:52:53.189470+00:00');
INSERT INTO timings VALUES(8,7,'screen',0,'[105.71435574402517]','2026-11-16T06:52:53.643952+00:00');
INSERT INTO timings VALUES(9,1,'screen',1,'[44.22462127973979, 37.422845111614926, 37.142136171361074]','2026-11-16T06:52:54.189412+00:00');
INSERT INTO timings VALUES(10,3,'screen',1,'[77.43390467751058, 45.18194383560145, 45.57898212992091]','2026-11-16T06:52:54.541279+00:00');
INSERT INTO timings VALUES(11,6,'screen',1,'[61.241020423736664, 78.2752391433918, 71.45850042356773]','2026-11-16T06:52:54.965825+00:00');
INSERT INTO timings VALUES(12,1,'screen',1,'[60.50228340640426, 38.13348681433126, 88.4993787250541]','2026-11-16T06:52:55.340481+00:00');
INSERT INTO timings VALUES(13,2,'screen',1,'[57.83937361829498, 51.02717105863972, 95.31770212986962]','2026-11-16T06:52:55.713287+00:00');
INSERT INTO timings VALUES(14,5,'screen',1,'[81.6951004201249, 64.17414553691336, 119.59697531679883]','2026-11-16T06:52:56.287049+00:00');
INSERT INTO timings VALUES(15,1,'screen',1,'[52.59087234004797, 53.41232638494012, 36.744939149704145]','2026-11-16T06:52:56.833193+00:00');
CREATE INDEX ix_runs_key ON runs ("key");
CREATE INDEX ix_environment_run ON environment (run);
CREATE INDEX ix_verdicts_run ON verdicts (run);
CREATE INDEX ix_builds_candidate ON builds (candidate);
CREATE INDEX ix_timings_candidate ON timings (candidate);
COMMIT;
