# make demo: the main job on a real Kafka.  make test: everything that CI runs.  See CONTRIBUTING.md for the rest.
SHELL := /bin/sh
PYSPARK ?= 4.2.0
PYSPARK_NEWEST ?= 4.3.0
# The older two that the README names.
PYSPARK_4.0 ?= 4.0.4
PYSPARK_4.1 ?= 4.1.4
# Each kind of job once, by `make releases`.
PYSPARK_FURTHER := 4.0.5 4.2.1
JAVAS := 21 25
PY := .venv/bin/python
TEST_EXTRAS := spark,cli,dev
# Read by pip's build of the kernel. Tests want it compiled; a user without a compiler still gets a running demo.
KERNEL := $(wildcard kafkasource/*/kernel.p* kafkasource/*/*/kernel.p* kafkasource/kafka/records/*.h kafkasource/formats/buffers.pxd kafkasource/formats/*/*opcodes.py)
SOURCES := pyproject.toml setup.py scripts/prepare.sh $(KERNEL)
PYTEST := $(PY) -m pytest -q
# Where it is set, each of the hundreds of Python processes that the tests start compiles all that it imports, and pytest
# all tests in each of its processes: 17 s of processor time instead of 6 for collecting them alone.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test environments jars lint style types imports unit coverage broker spark spark-kinds spark-newest spark-oldest spark-each \
	spark-4.0 spark-4.1 spark-4.3 servers releases extended floors sanitize fuzz campaign campaign-bugs storm storm-bugs simulate soak soak-tasks wide far bench bench-quick bench-mirror bench-racers readme docs kernel dist dist-build dist-check clean

# The kernels are compiled while pip installs pyspark. Then the demo fetches Kafka's jars.
demo:
	@[ -e .venv/.ready ] || { \
		echo "installing into .venv: pyspark $(PYSPARK) (400 MB), then kafkasource and Kafka's jars (45 MB)"; \
		echo "what is downloaded stays in the caches of pip (.venv/bin/pip cache purge removes it) and uv (.venv/bin/uv cache clean)," \
			"and in $${KAFKASOURCE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/kafkasource} (.venv/bin/pykafka cache clean)"; }
	@$(MAKE) --no-print-directory -j 2 .venv/.ready
	@.venv/bin/pykafka demo

# A skip that tests/allowed_skips.py does not name is a failure in what CI runs.
test extended: export KAFKASOURCE_SKIPS ?= fail
test: environments coverage broker spark spark-kinds

# With lint beside them. One after the other they take more than a minute longer.
environments:
	@$(MAKE) --no-print-directory -j 3 .venv/.requirements .venv-newest/.requirements .venv/.dev $(CLASSES) \
		types .venv-newest/.ready .venv-4.0/.ready jars style imports

# What most tests would else wait for: the two Kafkas that most brokers are, and the JVM connector.
jars: .venv/.dev
	@$(PY) -c "from kafkasource.testing.broker import kafka_jars; from lab.jvm_connector import jvm_connector_jars; \
		kafka_jars('4.3.1'), kafka_jars('3.9.2'), jvm_connector_jars()"

.venv/.ready: .venv/.pyspark .venv/.package
	@touch $@

.venv/.pyspark: pyproject.toml scripts/prepare.sh | .venv/bin/uv
	@scripts/prepare.sh requirements .venv $(PYSPARK) spark,cli && touch $@

.venv/.package: $(SOURCES) | .venv/bin/uv
	@scripts/prepare.sh package .venv $(PYSPARK) spark,cli && touch $@

.venv/bin/uv:
	@scripts/prepare.sh venv .venv $(PYSPARK) spark,cli

.venv/.requirements: pyproject.toml scripts/prepare.sh
	@scripts/prepare.sh requirements .venv $(PYSPARK) $(TEST_EXTRAS) && touch $@

.venv-newest/.requirements: pyproject.toml scripts/prepare.sh
	@PYTHON=$$(scripts/find_python.sh newest) scripts/prepare.sh requirements .venv-newest $(PYSPARK_NEWEST) $(TEST_EXTRAS) && touch $@

.venv/.dev: .venv/.requirements $(SOURCES)
	@echo "installing into .venv with what the tests need (pyspark $(PYSPARK))"
	@rm -f kafkasource/_cyutility.cpython-31[1-9]*.so kafkasource/*/kernel.cpython-31[1-9]*.so kafkasource/*/*/kernel.cpython-31[1-9]*.so
	@KAFKASOURCE_KERNEL=$$(scripts/kernel_build.sh $(PY)) scripts/prepare.sh package .venv $(PYSPARK) $(TEST_EXTRAS)
	@touch $@

.venv-newest/.ready: .venv-newest/.requirements $(SOURCES) .venv/.dev
	@echo "installing into .venv-newest (pyspark $(PYSPARK_NEWEST))"
	@KAFKASOURCE_KERNEL=$$(scripts/kernel_build.sh .venv-newest/bin/python $(PY)) scripts/prepare.sh package .venv-newest $(PYSPARK_NEWEST) $(TEST_EXTRAS)
	@touch $@

.venv-4.0/.ready .venv-4.1/.ready: .venv-%/.ready: scripts/other_spark.sh .venv/.dev
	@echo "installing into .venv-$* (pyspark $(PYSPARK_$*), the rest is that of .venv)"
	@scripts/other_spark.sh .venv-$* $(PYSPARK_$*) .venv

# With them the drivers of Spark in tests take a third less processor time, and brokers start in half the time.
CLASSES := .venv/spark-classes.jsa .venv/kafka-classes.jsa
.venv/%-classes.jsa: .venv/.requirements scripts/%_class_archive.py
	@PYTHONPATH=.:tests $(PY) scripts/$*_class_archive.py $@ >$(@D)/$*-classes.log 2>&1 || { cat $(@D)/$*-classes.log; exit 1; }

# Side by side: mypy takes as long as the others together.
lint: .venv/.dev
	@$(MAKE) --no-print-directory -j 2 types style imports

style: .venv/.dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: .venv/.dev
	$(PY) -m mypy

imports: .venv/.dev
	.venv/bin/lint-imports

# The first gate, with lint. With the compiled kernel; tests/kafka/records/test_builds.py runs the records tests again with the
# interpreted one.
UNIT_TESTS := -n 2 -m "not broker and not spark and not slow and not extended"

unit: .venv/.dev
	KAFKASOURCE_KERNEL=require $(PYTEST) $(UNIT_TESTS)

# The same tests on the newest Python here and the newest pyspark, and which lines of the package none of them runs: fails
# below the floor in pyproject.toml (tests/run_rules.py says what is counted). Costs next to nothing where Python can say
# by itself which lines run (3.12), and half as much again before.
coverage: .venv-newest/.ready
	core=$$(.venv-newest/bin/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")'); \
	KAFKASOURCE_KERNEL=require COVERAGE_CORE=$$core .venv-newest/bin/python -m pytest -q $(UNIT_TESTS) --cov --cov-report=

# Most of the time goes by in waiting for brokers to start, to notice a killed one, to elect: more at a time than cores,
# and in between what computes for long without one (the interpreted kernel, Kafka's own classes).
# Whole files, in the order of tests/long_files.py, and together those that share brokers (tests/run_rules.py).
BY_FILE := --dist loadfile --no-loadscope-reorder

# The files that have tests with one of these marks: pytest imports all files that it is given, in each of its processes.
files_with = $(shell grep -rlE 'mark\.($(1))\b' tests --include='test_*.py')

broker: .venv/.dev .venv/kafka-classes.jsa
	KAFKASOURCE_KERNEL=require $(PYTEST) -n 4 $(BY_FILE) -m "(broker or slow) and not spark and not extended" \
		$(call files_with,broker|slow)

# No more at a time than cores: Spark gives a Python process ten seconds to start, and takes no word for more. Where a
# machine is so busy that it took longer, and for that error alone, a test is run again.
SPARK_RULES := $(BY_FILE) --reruns 2 --only-rerun "Python worker failed to connect back"
SPARK_TESTS := -n 2 $(SPARK_RULES)

spark: .venv/.dev $(CLASSES)
	$(PYTEST) $(SPARK_TESTS) -m "spark and not extended" $(call files_with,spark)

# What `make test` leaves out to end in time: further releases of brokers, further ways to lose one, jobs of minutes.
extended: export KAFKASOURCE_EXAMPLES = all
extended: .venv/.dev $(CLASSES) floors docs spark-each
	@scripts/install_kerberos.sh .venv
	KAFKASOURCE_TIMES=1 $(PYTEST) -n 2 -m "slow and not broker and not spark and not extended" $(call files_with,slow)
	KAFKASOURCE_TIMES=1 $(PYTEST) -n 4 $(BY_FILE) -m "extended and not spark"
	KAFKASOURCE_TIMES=1 $(PYTEST) $(SPARK_TESTS) -m "extended and spark"

# The two ends of what pyproject.toml promises, each with the unit tests: the lowest versions with the oldest Python here,
# and the newest versions with Python 3.14. tests/fuzz and tests/kafka/protocol stay out: they run no code but our own, for
# long. pyspark[connect] is not installed (scripts/ends.sh says why); only tests with Spark use it.
ENDS_TESTS := $(UNIT_TESTS) --ignore=tests/fuzz --ignore=tests/kafka/protocol

floors: .venv-lowest/.ready .venv-highest/.ready
	KAFKASOURCE_KERNEL=require .venv-lowest/bin/python -m pytest -q $(ENDS_TESTS)
	KAFKASOURCE_KERNEL=require .venv-highest/bin/python -m pytest -q $(ENDS_TESTS)

.venv-lowest/.ready .venv-highest/.ready: .venv-%/.ready: pyproject.toml setup.py scripts/ends.sh $(KERNEL) .venv/.dev .venv-dist/.ready
	@scripts/ends.sh .venv-$* $*

# Each kind of job once, on the newest pyspark and the oldest side by side: a process for each starts one Spark and one
# broker. The JVM connector has no release for the newest, so the peers stay with the one above.
spark-kinds:
	@$(MAKE) --no-print-directory -j 2 --output-sync=target spark-newest spark-oldest

EACH_KIND = -n 1 $(SPARK_RULES) -m "each_kind and not extended" $(call files_with,each_kind)

spark-newest: .venv-newest/.ready
	.venv-newest/bin/python -m pytest -q $(EACH_KIND)

spark-oldest: .venv-4.0/.ready
	.venv-4.0/bin/python -m pytest -q $(EACH_KIND)

# The whole suite of `make spark` on each other release that the README names. tests/spark_releases.py says what a release
# lacks, tests/jvm_connector.py which JVM connector runs there.
ON_EACH := -m "spark and not extended"

spark-each: spark-4.0 spark-4.1 spark-4.3

spark-4.3: .venv-newest/.ready
	.venv-newest/bin/python -m pytest -q $(SPARK_TESTS) $(ON_EACH) $(call files_with,spark)

spark-4.0 spark-4.1: spark-%: .venv-%/.ready
	.venv-$*/bin/python -m pytest -q $(SPARK_TESTS) $(ON_EACH) $(call files_with,spark)

# Servers that speak Kafka, and each minor release of Kafka: what works is in tests/ran.json, of which tables of docs/ are made.
servers: .venv/.dev .venv/kafka-classes.jsa
	KAFKASOURCE_RECORD=1 $(PYTEST) -n 0 tests/servers

# Then each kind of job on further releases of Spark, and with each Java that is installed.
releases: .venv/.dev .venv-newest/.ready .venv/kafka-classes.jsa
	KAFKASOURCE_SERVERS=releases KAFKASOURCE_RECORD=1 $(PYTEST) -n 0 tests/servers -k "a_job_has or what_ran"
	set -e; for spark in $(PYSPARK_FURTHER); do \
		scripts/other_spark.sh build/spark-$$spark $$spark .venv; \
		build/spark-$$spark/bin/python -m pytest -q $(EACH_KIND); $(PY) tests/ran.py Spark $$spark; done
	set -e; for java in $(JAVAS); do home=$$(ls -d /usr/lib/jvm/*-$$java-* 2>/dev/null | head -1); \
		[ -n "$$home" ] || { echo "no Java $$java in /usr/lib/jvm"; continue; }; \
		JAVA_HOME=$$home $(PYTEST) $(EACH_KIND); $(PY) tests/ran.py Java $$java; done
	$(PY) tests/ran.py environments

# The site, into build/site. A dead link is an error.
docs: .venv-docs/.ready
	.venv-docs/bin/python scripts/site_pages.py
	@echo "the site is in build/site; python3 -m http.server -b 127.0.0.1 -d build/site shows it at http://127.0.0.1:8000"

.venv-docs/.ready: pyproject.toml
	@$$(scripts/find_python.sh newest) -m venv .venv-docs && .venv-docs/bin/python -m pip -q --disable-pip-version-check install \
		$$(sed -n '/^docs = \[/,/^]/s/^ *"\([^"]*\)".*/\1/p' pyproject.toml) && touch $@

# The kernel under AddressSanitizer and UBSan: minutes, for whoever changes it; a part of make extended.
sanitize: .venv/.dev
	$(PYTEST) tests/kafka/records/test_sanitized.py

# Bad input for every decoder, a few minutes; a short run is part of make unit. SEED=7 INPUTS=1000 make fuzz
fuzz: .venv/.dev
	$(PY) tests/fuzz/run.py --inputs $${INPUTS:-2000000} $${SEED:+--seed $$SEED}

bench: .venv/.dev
	$(PY) -m lab.benchmarks

# Queries of every kind under faults drawn by a seed, and a checker: docs/campaign.md. MINUTES=20 SEED=7 make campaign
CAMPAIGN := PYTHONPATH=.:tests $(PY) -m lab.campaign --minutes $${MINUTES:-20}

campaign: .venv/.dev
	@mkdir -p build
	$(CAMPAIGN) $${SEED:+--seed $$SEED} --result build/campaign.json; code=$$?; \
		[ ! -e build/campaign.json ] || echo "to count it: $(PY) -m lab.campaign.counts build/campaign.json"; exit $$code

# Each planted bug, for at most MINUTES (3) of faults each: after how many of them was it found?
campaign-bugs: .venv/.dev
	MINUTES=$${MINUTES:-3} PYTHONPATH=.:tests $(PY) -m lab.campaign.planted $${SEED:+--seed $$SEED}

# Many faults a second without Spark, in rounds: MINUTES=60 SEED=7 make storm
storm: .venv/.dev
	@mkdir -p build
	PYTHONPATH=.:tests $(PY) -m lab.campaign.storm --minutes $${MINUTES:-10} $${SEED:+--seed $$SEED} --result build/storm.json; code=$$?; \
		[ ! -e build/storm.json ] || echo "to count it: $(PY) -m lab.campaign.counts build/storm.json"; exit $$code

# Each bug that only faults of connections bring to light, for MINUTES (1) of them.
storm-bugs: .venv/.dev
	MINUTES=$${MINUTES:-1} PYTHONPATH=.:tests $(PY) -m lab.campaign.planted.storm $${SEED:+--seed $$SEED}

# Faults inside one process, on the tests' scripted clusters: MINUTES=1 SEED=7
simulate: .venv/.dev
	@mkdir -p build
	PYTHONPATH=.:tests:tests/source:tests/sink:tests/exactly_once:tests/kafka/group $(PY) -m lab.campaign.simulated --minutes $${MINUTES:-1} \
		$${SEED:+--seed $$SEED} --result build/simulated.json
	@echo "to count it: $(PY) -m lab.campaign.counts build/simulated.json"

# A steady load for hours, every process sampled: does anything grow? HOURS=2 make soak; what it found is in build/soak
soak: .venv/.dev
	$(PY) -m lab.benchmarks.soak --hours $${HOURS:-2}

# One long-lived worker through 100,000 tasks on fake brokers: ten minutes. TASKS=10000 make soak-tasks
soak-tasks: .venv/.dev
	PYTHONPATH=.:tests:tests/source $(PY) -m lab.benchmarks.soak.tasks --tasks $${TASKS:-100000}

# A stream over 10,000 partitions, most of them idle, and planning of 100,000: five minutes
wide: .venv/.dev
	PYTHONPATH=.:tests:tests/source $(PY) -m lab.benchmarks.wide

# Goodput over long lines, beside the JVM connector and librdkafka; half an hour. CASES="80/20 150/200/0.001" make far
far: .venv/.dev
	PYTHONPATH=.:tests $(PY) -m lab.benchmarks.far $${CASES:+--cases $$CASES}

bench-quick: .venv/.dev
	$(PY) -m lab.benchmarks --quick

# One cluster to one, two and three others, beside MirrorMaker 2 from Maven Central; ten minutes.
bench-mirror: .venv/.dev
	$(PY) -m lab.benchmarks.mirror

# Beside kafkarrow, confluent-kafka and PyFlink, which are installed into the cache of Kafka's jars; eight minutes.
bench-racers: .venv/.dev
	$(PY) -m lab.benchmarks --stages racers

# The tables in docs/ that are made of tables of the code and of the tests.
readme: .venv/.dev
	$(PY) scripts/doc_tables.py

# The kernel again, after an edit of a kernel.py.
kernel: .venv/.dev
	@rm -f kafkasource/_cyutility.cpython-31[1-9]*.so kafkasource/*/kernel.cpython-31[1-9]*.so kafkasource/*/*/kernel.cpython-31[1-9]*.so
	KAFKASOURCE_KERNEL=$$(scripts/kernel_build.sh $(PY)) $(PY) setup.py -q build_ext --inplace --force

# A release, into dist/ or DIST: source archive, wheels, sums, bill of materials (docs/releasing.md). Then the checks of what
# was built, on every Python here; where 3.14 is none of them, Debian's packages bring one into build/.
export DIST ?= dist
dist: dist-build
	@$(MAKE) --no-print-directory dist-check

dist-build: .venv-dist/.ready
	.venv-dist/bin/python scripts/dist.py build

dist-check: .venv-dist/.ready
	.venv-dist/bin/python scripts/dist.py check $$(scripts/find_python.sh 3.14 >/dev/null 2>&1 || scripts/debian_python.sh 3.14 build/python3.14)

.venv-dist/.ready: scripts/dist-tools.txt
	@echo "installing into .venv-dist what builds and checks a release"
	@rm -rf .venv-dist; $$(scripts/find_python.sh 3.11) -m venv .venv-dist
	@.venv-dist/bin/python -m pip -q --disable-pip-version-check install -r scripts/dist-tools.txt
	@touch $@

clean:
	rm -rf .venv .venv-newest .venv-4.0 .venv-4.1 .venv-lowest .venv-highest .venv-dist build dist *.egg-info kafkasource/*/*.so kafkasource/*/*/*.so kafkasource/*/*.c kafkasource/*/*/*.c
