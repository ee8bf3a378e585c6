-- All tables with their indexes. `0001_initial.py` executes this file.

CREATE TABLE account (
    name TEXT NOT NULL,
    provider TEXT NOT NULL,
    config JSONB NOT NULL,
    vm_parts JSONB,
    identity TEXT,
    state TEXT DEFAULT 'unchecked' NOT NULL,
    cordoned JSONB,
    last_error JSONB,
    checked_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_account PRIMARY KEY (name),
    CONSTRAINT ck_account_state CHECK (state IN ('unchecked', 'ok', 'failing', 'disabled', 'draining'))
);
COMMENT ON COLUMN account.config IS 'settings of gpulease.toml, no secret';
COMMENT ON COLUMN account.vm_parts IS 'what each VM gets besides compute, from the settings: PartsFacts.settings_json';
COMMENT ON COLUMN account.identity IS 'pinned at first use';
COMMENT ON COLUMN account.cordoned IS '{by, since, note}';
COMMENT ON COLUMN account.last_error IS '{class, code, message, at}';

CREATE TABLE attempt_archive (
    id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    n INTEGER NOT NULL,
    provider TEXT NOT NULL,
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    zone TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    market TEXT NOT NULL,
    gpu_model TEXT,
    gpu_count INTEGER,
    instance_id TEXT,
    price_per_hour NUMERIC(14, 6) NOT NULL,
    disk_price_per_hour NUMERIC(14, 6),
    address_price_per_hour NUMERIC(14, 6),
    billing_started_at TIMESTAMP WITH TIME ZONE,
    billing_ended_at TIMESTAMP WITH TIME ZONE,
    ended_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_attempt_archive PRIMARY KEY (id),
    CONSTRAINT uq_attempt_archive_lease_id_n UNIQUE (lease_id, n)
);
COMMENT ON TABLE attempt_archive IS 'Attempts of purged leases that may have had a VM: what they cost, and the proof that their VM is over';
CREATE INDEX ix_attempt_archive_tenant_id_billing_ended_at ON attempt_archive (tenant_id, billing_ended_at);

CREATE TABLE attempt_price (
    attempt_id TEXT COLLATE "C" NOT NULL,
    starts_at TIMESTAMP WITH TIME ZONE NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    price_per_hour NUMERIC(14, 6) NOT NULL,
    price_source TEXT NOT NULL,
    CONSTRAINT pk_attempt_price PRIMARY KEY (attempt_id, starts_at)
);
COMMENT ON TABLE attempt_price IS 'Changes of the price of a running attempt. Before the first one, the price as planned applies';
COMMENT ON COLUMN attempt_price.price_per_hour IS 'USD for compute from this time on';

CREATE TABLE audit (
    id TEXT COLLATE "C" NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    tenant_id TEXT COLLATE "C",
    principal TEXT COLLATE "C" NOT NULL,
    role TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT,
    before JSONB,
    after JSONB,
    address TEXT,
    request_id TEXT,
    CONSTRAINT pk_audit PRIMARY KEY (id)
);
COMMENT ON COLUMN audit.principal IS 'key id, or system';
CREATE INDEX ix_audit_tenant_id_id ON audit (tenant_id, id);

CREATE TABLE bad_gpu (
    provider TEXT NOT NULL,
    region TEXT NOT NULL,
    uuid TEXT NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    account TEXT NOT NULL,
    zone TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    finding TEXT NOT NULL,
    first_seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    times INTEGER DEFAULT '1' NOT NULL,
    CONSTRAINT pk_bad_gpu PRIMARY KEY (provider, region, uuid, tenant_id)
);
COMMENT ON TABLE bad_gpu IS 'GPUs with fatal findings: the word of one tenant each. A VM of this tenant that gets one of them again does not become active, and after the words of two tenants no VM';
COMMENT ON COLUMN bad_gpu.tenant_id IS 'whose VM reported it';
COMMENT ON COLUMN bad_gpu.finding IS 'code of the newest one';

CREATE TABLE cost_rollup (
    tenant_id TEXT COLLATE "C" NOT NULL,
    step TEXT NOT NULL,
    starts_at TIMESTAMP WITH TIME ZONE NOT NULL,
    provider TEXT NOT NULL,
    region TEXT NOT NULL,
    gpu_model TEXT NOT NULL,
    market TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    compute_cost NUMERIC NOT NULL,
    disk_cost NUMERIC NOT NULL,
    address_cost NUMERIC NOT NULL,
    list_cost NUMERIC NOT NULL,
    gpu_hours NUMERIC NOT NULL,
    idle_gpu_hours NUMERIC,
    idle_cost NUMERIC,
    leases INTEGER NOT NULL,
    leases_started INTEGER DEFAULT '0' NOT NULL,
    CONSTRAINT pk_cost_rollup PRIMARY KEY (tenant_id, step, starts_at, provider, region, gpu_model, market, instance_type),
    CONSTRAINT ck_cost_rollup_step CHECK (step IN ('hour', 'day'))
);
COMMENT ON TABLE cost_rollup IS 'Sums of usage_record over one step';
COMMENT ON COLUMN cost_rollup.compute_cost IS 'USD, not rounded';
COMMENT ON COLUMN cost_rollup.disk_cost IS 'USD, not rounded';
COMMENT ON COLUMN cost_rollup.address_cost IS 'USD, not rounded';
COMMENT ON COLUMN cost_rollup.list_cost IS 'USD, not rounded';
COMMENT ON COLUMN cost_rollup.idle_gpu_hours IS 'NULL: unknown';
COMMENT ON COLUMN cost_rollup.idle_cost IS 'USD; NULL: unknown';
COMMENT ON COLUMN cost_rollup.leases_started IS 'those of them without earlier use of the same kind of machine';
CREATE INDEX ix_cost_rollup_step_starts_at ON cost_rollup (step, starts_at);

CREATE TABLE event (
    row_id BIGINT GENERATED ALWAYS AS IDENTITY,
    id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C",
    lease_sequence INTEGER,
    sequence BIGINT,
    type TEXT NOT NULL,
    data JSONB NOT NULL,
    request_id TEXT,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_event PRIMARY KEY (row_id),
    CONSTRAINT uq_event_lease_id_lease_sequence UNIQUE (lease_id, lease_sequence),
    CONSTRAINT uq_event_id UNIQUE (id)
);
COMMENT ON COLUMN event.lease_sequence IS '1, 2, 3, ... without a gap within a lease';
COMMENT ON COLUMN event.sequence IS 'NULL until the sequencer has numbered it';
CREATE INDEX ix_event_at ON event (at);
CREATE INDEX ix_event_lease_id_sequence ON event (lease_id, sequence);
CREATE UNIQUE INDEX ix_event_sequence ON event (sequence) WHERE sequence IS NOT NULL;
CREATE INDEX ix_event_tenant_id_sequence ON event (tenant_id, sequence);
CREATE INDEX ix_event_unnumbered ON event (row_id) WHERE sequence IS NULL;

CREATE TABLE gpu_benchmark (
    attempt_id TEXT COLLATE "C" NOT NULL,
    uuid TEXT NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    n INTEGER NOT NULL,
    provider TEXT NOT NULL,
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    zone TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    gpu_model TEXT,
    agent TEXT NOT NULL,
    driver_version TEXT,
    libraries JSONB NOT NULL,
    counted BOOLEAN NOT NULL,
    bf16_tflops DOUBLE PRECISION,
    fp16_tflops DOUBLE PRECISION,
    fp32_tflops DOUBLE PRECISION,
    memory_gbps DOUBLE PRECISION,
    host_to_device_gbps DOUBLE PRECISION,
    device_to_host_gbps DOUBLE PRECISION,
    allreduce_gbps DOUBLE PRECISION,
    seconds DOUBLE PRECISION,
    measured_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_gpu_benchmark PRIMARY KEY (attempt_id, uuid)
);
COMMENT ON TABLE gpu_benchmark IS 'One row per GPU and attempt. It stays when its lease is deleted';
COMMENT ON COLUMN gpu_benchmark.uuid IS 'of the GPU';
COMMENT ON COLUMN gpu_benchmark.n IS 'of the attempt';
COMMENT ON COLUMN gpu_benchmark.agent IS 'its version';
COMMENT ON COLUMN gpu_benchmark.libraries IS 'versions by name';
COMMENT ON COLUMN gpu_benchmark.counted IS 'offerings count it: the image was the account''s default one, which no tenant made';
COMMENT ON COLUMN gpu_benchmark.allreduce_gbps IS 'of all GPUs of the VM together';
COMMENT ON COLUMN gpu_benchmark.seconds IS 'how long it took';
CREATE INDEX ix_gpu_benchmark_measured_at ON gpu_benchmark (measured_at);
CREATE INDEX ix_gpu_benchmark_newest ON gpu_benchmark (provider, instance_type, measured_at) WHERE counted AND bf16_tflops IS NOT NULL;

CREATE TABLE gpu_latest (
    lease_id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    attempt_id TEXT COLLATE "C" NOT NULL,
    sampled_at TIMESTAMP WITH TIME ZONE NOT NULL,
    received_at TIMESTAMP WITH TIME ZONE NOT NULL,
    gpu_percent SMALLINT,
    busiest_percent SMALLINT,
    memory_percent SMALLINT,
    gpus INTEGER,
    idle_since TIMESTAMP WITH TIME ZONE,
    idle_samples INTEGER DEFAULT '0' NOT NULL,
    gpu_percents SMALLINT[],
    sample JSONB,
    xids JSONB,
    metric_labels JSONB,
    refused INTEGER DEFAULT '0' NOT NULL,
    not_summed JSONB,
    CONSTRAINT pk_gpu_latest PRIMARY KEY (lease_id)
)
 WITH (fillfactor = 70);
COMMENT ON TABLE gpu_latest IS 'One row per lease, for its newest attempt. Written once a minute; never locked with the lease';
COMMENT ON COLUMN gpu_latest.attempt_id IS 'the newest one';
COMMENT ON COLUMN gpu_latest.sampled_at IS 'by the VM''s clock';
COMMENT ON COLUMN gpu_latest.gpu_percent IS 'utilization, mean of its GPUs';
COMMENT ON COLUMN gpu_latest.busiest_percent IS 'utilization of the busiest GPU';
COMMENT ON COLUMN gpu_latest.gpus IS 'in the sample';
COMMENT ON COLUMN gpu_latest.idle_since IS 'the first of the idle samples in a row; NULL: the newest is not idle';
COMMENT ON COLUMN gpu_latest.idle_samples IS 'idle samples in a row';
COMMENT ON COLUMN gpu_latest.gpu_percents IS 'utilization of each GPU';
COMMENT ON COLUMN gpu_latest.sample IS 'the newest one';
COMMENT ON COLUMN gpu_latest.xids IS 'since the VM booted';
COMMENT ON COLUMN gpu_latest.metric_labels IS 'the UUIDs of its GPUs and the name that its series have';
COMMENT ON COLUMN gpu_latest.refused IS 'samples that were not stored as they came';
COMMENT ON COLUMN gpu_latest.not_summed IS 'hours whose samples the job could not sum up: {hours, since, error}';

CREATE TABLE gpu_rollup (
    lease_id TEXT COLLATE "C" NOT NULL,
    starts_at TIMESTAMP WITH TIME ZONE NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    samples SMALLINT NOT NULL,
    idle_samples SMALLINT NOT NULL,
    gpu_percent SMALLINT,
    memory_percent SMALLINT,
    power_w SMALLINT,
    temperature_c SMALLINT,
    sm_clock_mhz SMALLINT,
    cpu_percent SMALLINT,
    host_memory_percent SMALLINT,
    disk_percent SMALLINT,
    uuids TEXT[] NOT NULL,
    gpu_values SMALLINT[] NOT NULL,
    CONSTRAINT pk_gpu_rollup PRIMARY KEY (lease_id, starts_at)
);
COMMENT ON TABLE gpu_rollup IS 'Means of an hour';
COMMENT ON COLUMN gpu_rollup.starts_at IS 'a full hour, UTC';
COMMENT ON COLUMN gpu_rollup.uuids IS 'its GPUs';
COMMENT ON COLUMN gpu_rollup.gpu_values IS '[GPU][series]';
CREATE INDEX ix_gpu_rollup_starts_at ON gpu_rollup USING brin (starts_at);

CREATE TABLE gpu_sample (
    lease_id TEXT COLLATE "C" NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    idle BOOLEAN NOT NULL,
    gpu_percent SMALLINT,
    memory_percent SMALLINT,
    power_w SMALLINT,
    temperature_c SMALLINT,
    sm_clock_mhz SMALLINT,
    cpu_percent SMALLINT,
    host_memory_percent SMALLINT,
    disk_percent SMALLINT,
    uuids TEXT[] NOT NULL,
    gpu_values SMALLINT[] NOT NULL,
    CONSTRAINT pk_gpu_sample PRIMARY KEY (lease_id, at)
)
 PARTITION BY RANGE (at);
COMMENT ON TABLE gpu_sample IS 'At most a row per lease and half a sample period. A partition per day, in the schema gpu_partitions';
COMMENT ON COLUMN gpu_sample.at IS 'by the VM''s clock';
COMMENT ON COLUMN gpu_sample.idle IS 'all GPUs of the VM';
COMMENT ON COLUMN gpu_sample.uuids IS 'its GPUs';
COMMENT ON COLUMN gpu_sample.gpu_values IS '[series][GPU]';

CREATE TABLE gpu_series (
    lease_id TEXT COLLATE "C" NOT NULL,
    starts_at TIMESTAMP WITH TIME ZONE NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    gpu_percent SMALLINT[] NOT NULL,
    memory_percent SMALLINT[] NOT NULL,
    power_w SMALLINT[] NOT NULL,
    temperature_c SMALLINT[] NOT NULL,
    sm_clock_mhz SMALLINT[] NOT NULL,
    cpu_percent SMALLINT[] NOT NULL,
    host_memory_percent SMALLINT[] NOT NULL,
    disk_percent SMALLINT[] NOT NULL,
    uuids TEXT[] NOT NULL,
    gpu_values SMALLINT[] NOT NULL,
    CONSTRAINT pk_gpu_series PRIMARY KEY (lease_id, starts_at)
)
 PARTITION BY RANGE (starts_at);
COMMENT ON TABLE gpu_series IS 'Means of twelve steps of five minutes each. A partition per day, as long as samples are kept';
COMMENT ON COLUMN gpu_series.starts_at IS 'a full hour, UTC';
COMMENT ON COLUMN gpu_series.uuids IS 'its GPUs';
COMMENT ON COLUMN gpu_series.gpu_values IS '[series of the first GPU, of the next …][step]';

CREATE TABLE idempotency (
    scope TEXT COLLATE "C" NOT NULL,
    key TEXT NOT NULL,
    route TEXT NOT NULL,
    body_hash BYTEA NOT NULL,
    status INTEGER NOT NULL,
    response JSONB NOT NULL,
    location TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_idempotency PRIMARY KEY (scope, key, route)
);
COMMENT ON COLUMN idempotency.scope IS 'tenant id, or the key id of an operator';
COMMENT ON COLUMN idempotency.response IS 'never holds a secret';
CREATE INDEX ix_idempotency_created_at ON idempotency (created_at);

CREATE TABLE installation (
    one BOOLEAN DEFAULT true NOT NULL,
    id TEXT NOT NULL,
    token_key BYTEA NOT NULL,
    system_identifier TEXT,
    timeline INTEGER,
    database_identity TEXT,
    hold JSONB,
    launches_stopped JSONB,
    event_sequence BIGINT DEFAULT '0' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    operators_told_until BIGINT,
    CONSTRAINT pk_installation PRIMARY KEY (one),
    CONSTRAINT ck_installation_one CHECK (one)
);
COMMENT ON COLUMN installation.id IS 'stands in every tag at the clouds';
COMMENT ON COLUMN installation.token_key IS 'key of the launch tokens; only workers may read it';
COMMENT ON COLUMN installation.system_identifier IS 'of the Postgres cluster, to notice a restore';
COMMENT ON COLUMN installation.database_identity IS 'of the database and its table, to notice a restored dump';
COMMENT ON COLUMN installation.hold IS '{reason, since}: no launch, expiry, kill or close until an operator resumes';
COMMENT ON COLUMN installation.launches_stopped IS '{by, since, note}: the operators'' emergency stop';
COMMENT ON COLUMN installation.operators_told_until IS 'number of the last event that messages to operators were made of; NULL: none yet';

CREATE TABLE invariant (
    name TEXT NOT NULL,
    violations INTEGER NOT NULL,
    examples JSONB NOT NULL,
    since TIMESTAMP WITH TIME ZONE,
    checked_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_invariant PRIMARY KEY (name)
);
COMMENT ON COLUMN invariant.violations IS 'that the last check found';
COMMENT ON COLUMN invariant.examples IS 'rows of a few of them';
COMMENT ON COLUMN invariant.since IS 'NULL: it holds';

CREATE TABLE invoice_import (
    id TEXT COLLATE "C" NOT NULL,
    file_name TEXT NOT NULL,
    file_hash BYTEA NOT NULL,
    provider TEXT NOT NULL,
    month DATE NOT NULL,
    billing_accounts JSONB DEFAULT '[]' NOT NULL,
    lines INTEGER NOT NULL,
    first_day DATE,
    last_day DATE,
    unlisted_resources INTEGER DEFAULT '0' NOT NULL,
    unlisted_cost NUMERIC DEFAULT '0' NOT NULL,
    imported_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    replaced_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_invoice_import PRIMARY KEY (id),
    CONSTRAINT uq_invoice_import_file_hash UNIQUE (file_hash)
);
COMMENT ON COLUMN invoice_import.file_hash IS 'SHA-256: a file is imported once';
COMMENT ON COLUMN invoice_import.month IS 'its first day';
COMMENT ON COLUMN invoice_import.billing_accounts IS 'whose lines for the month this import holds';
COMMENT ON COLUMN invoice_import.lines IS 'of the file; only those that matter are stored';
COMMENT ON COLUMN invoice_import.first_day IS 'of its charges, UTC';
COMMENT ON COLUMN invoice_import.last_day IS 'of its charges, UTC; estimates of later days are not compared';
COMMENT ON COLUMN invoice_import.unlisted_resources IS 'with the installation''s tag and without a lease, when it was imported';
COMMENT ON COLUMN invoice_import.unlisted_cost IS 'USD: what they cost';
COMMENT ON COLUMN invoice_import.replaced_at IS 'when a newer file took over its last billing account';
CREATE INDEX ix_invoice_import_month ON invoice_import (month);

CREATE TABLE launch_batch (
    id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    provider TEXT NOT NULL,
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    zone TEXT NOT NULL,
    token TEXT NOT NULL,
    slots INTEGER NOT NULL,
    params JSONB,
    params_hash TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    last_sent_at TIMESTAMP WITH TIME ZONE,
    answered_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_launch_batch PRIMARY KEY (id),
    CONSTRAINT ck_launch_batch_slots CHECK (slots >= 1),
    CONSTRAINT uq_launch_batch_token UNIQUE (token)
);
COMMENT ON TABLE launch_batch IS 'One create call of several attempts of a tenant. Each attempt has a slot of it';
COMMENT ON COLUMN launch_batch.params IS 'exactly what is sent; NULL once no slot may be sent again';
COMMENT ON COLUMN launch_batch.answered_at IS 'when a call returned its VMs first';
CREATE INDEX ix_launch_batch_created_at ON launch_batch (created_at);

CREATE TABLE operator_message (
    id TEXT COLLATE "C" NOT NULL,
    cause TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    sent_to JSONB DEFAULT '[]' NOT NULL,
    tries INTEGER DEFAULT '0' NOT NULL,
    next_try_at TIMESTAMP WITH TIME ZONE DEFAULT now(),
    sent_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_operator_message PRIMARY KEY (id),
    CONSTRAINT uq_operator_message_cause UNIQUE (cause)
);
COMMENT ON TABLE operator_message IS 'Messages to the operators, sent through Apprise';
COMMENT ON COLUMN operator_message.cause IS 'what it reports, once: kind and id';
COMMENT ON COLUMN operator_message.sent_to IS 'receivers that accepted it';
COMMENT ON COLUMN operator_message.next_try_at IS 'NULL: sent, or given up';
CREATE INDEX ix_operator_message_next_try_at ON operator_message (next_try_at) WHERE next_try_at IS NOT NULL;

CREATE TABLE orphan (
    id TEXT COLLATE "C" DEFAULT new_typeid('orphan') NOT NULL,
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    zone TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    market TEXT NOT NULL,
    cause TEXT NOT NULL,
    lease_id TEXT COLLATE "C",
    attempt_n INTEGER,
    tags JSONB NOT NULL,
    state TEXT DEFAULT 'seen' NOT NULL,
    price_per_hour NUMERIC(14, 6),
    launched_at TIMESTAMP WITH TIME ZONE,
    deadline_at TIMESTAMP WITH TIME ZONE,
    first_seen_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    last_seen_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    sightings INTEGER DEFAULT '1' NOT NULL,
    end_after TIMESTAMP WITH TIME ZONE,
    end_requested_at TIMESTAMP WITH TIME ZONE,
    end_error JSONB,
    gone_at TIMESTAMP WITH TIME ZONE,
    adopt_requested_at TIMESTAMP WITH TIME ZONE,
    adopt_error TEXT,
    CONSTRAINT pk_orphan PRIMARY KEY (account, region, instance_id),
    CONSTRAINT ck_orphan_cause CHECK (cause IN ('ended_lease', 'other_attempt', 'lost_row', 'copied_tags', 'leftover')),
    CONSTRAINT ck_orphan_state CHECK (state IN ('seen', 'ending', 'gone', 'adopted')),
    CONSTRAINT uq_orphan_id UNIQUE (id)
);
COMMENT ON COLUMN orphan.id IS 'the API''s name of the row';
COMMENT ON COLUMN orphan.end_after IS 'NULL: ended only by an operator';
COMMENT ON COLUMN orphan.end_error IS '{class, code, message}: why the provider did not accept the last request to end it';
COMMENT ON COLUMN orphan.adopt_requested_at IS 'an operator wants its lease rebuilt from its tags';
COMMENT ON COLUMN orphan.adopt_error IS 'why that could not be done';
CREATE INDEX ix_orphan_open ON orphan (account, region) WHERE state IN ('seen', 'ending');

CREATE TABLE periodic_job (
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    account TEXT,
    region TEXT,
    next_due TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    claim_id UUID,
    held_until TIMESTAMP WITH TIME ZONE,
    runs INTEGER DEFAULT '0' NOT NULL,
    last_started_at TIMESTAMP WITH TIME ZONE,
    last_ok_at TIMESTAMP WITH TIME ZONE,
    last_error TEXT,
    interval_seconds DOUBLE PRECISION NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_periodic_job PRIMARY KEY (name)
);
COMMENT ON COLUMN periodic_job.interval_seconds IS 'from the start of a run to the next one';
CREATE INDEX ix_periodic_job_kind_next_due ON periodic_job (kind, next_due);

CREATE TABLE provider_bucket (
    name TEXT NOT NULL,
    next_free TIMESTAMP WITH TIME ZONE NOT NULL,
    slow_factor NUMERIC(6, 2) DEFAULT '1' NOT NULL,
    throttled_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_provider_bucket PRIMARY KEY (name)
);
COMMENT ON COLUMN provider_bucket.name IS 'account/region/operation';
COMMENT ON COLUMN provider_bucket.next_free IS 'when the bucket is full again (GCRA''s theoretical arrival time)';

CREATE TABLE tenant (
    id TEXT COLLATE "C" NOT NULL,
    name TEXT NOT NULL,
    status TEXT DEFAULT 'active' NOT NULL,
    max_ttl_seconds INTEGER NOT NULL,
    max_total_seconds INTEGER NOT NULL,
    budgets_version INTEGER DEFAULT '0' NOT NULL,
    idle_floor JSONB,
    version INTEGER DEFAULT '1' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_tenant PRIMARY KEY (id),
    CONSTRAINT ck_tenant_status CHECK (status IN ('active', 'suspended')),
    CONSTRAINT ck_tenant_terms CHECK (max_ttl_seconds >= 60 AND max_total_seconds >= max_ttl_seconds),
    CONSTRAINT uq_tenant_name UNIQUE (name)
);
COMMENT ON COLUMN tenant.budgets_version IS 'changes with the set of its budgets and with their periods';
COMMENT ON COLUMN tenant.idle_floor IS '{after_seconds, action, max_keep_seconds}: of every lease';

CREATE TABLE usage_progress (
    singleton BOOLEAN DEFAULT true NOT NULL,
    rolled_until TIMESTAMP WITH TIME ZONE,
    checked_until TIMESTAMP WITH TIME ZONE,
    recorded_until TIMESTAMP WITH TIME ZONE,
    recorded_corrections_until TIMESTAMP WITH TIME ZONE,
    samples_rolled_until TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_usage_progress PRIMARY KEY (singleton),
    CONSTRAINT ck_usage_progress_singleton CHECK (singleton)
);
COMMENT ON TABLE usage_progress IS 'One row: how far usage_rollup is';
COMMENT ON COLUMN usage_progress.rolled_until IS 'the end of the last hour that is summed up; NULL: none';
COMMENT ON COLUMN usage_progress.checked_until IS 'corrections that were written before are summed up';
COMMENT ON COLUMN usage_progress.recorded_until IS 'the end of the last hour whose usage records are closed; NULL: none';
COMMENT ON COLUMN usage_progress.recorded_corrections_until IS 'corrections that were written before have usage records';
COMMENT ON COLUMN usage_progress.samples_rolled_until IS 'the end of the last hour whose GPU samples are summed up; NULL: none';

CREATE TABLE usage_record (
    attempt_id TEXT COLLATE "C" NOT NULL,
    starts_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision INTEGER NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    lease_name TEXT NOT NULL,
    n INTEGER NOT NULL,
    key_id TEXT COLLATE "C",
    labels JSONB NOT NULL,
    provider TEXT NOT NULL,
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    zone TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    instance_id TEXT,
    market TEXT NOT NULL,
    gpu_model TEXT,
    gpu_count INTEGER,
    seconds NUMERIC NOT NULL,
    price_per_hour NUMERIC(14, 6) NOT NULL,
    price_source TEXT,
    price_as_of TIMESTAMP WITH TIME ZONE,
    compute_cost NUMERIC NOT NULL,
    disk_cost NUMERIC NOT NULL,
    address_cost NUMERIC NOT NULL,
    list_cost NUMERIC NOT NULL,
    disk_gib_hours NUMERIC NOT NULL,
    gpu_hours NUMERIC NOT NULL,
    idle_gpu_hours NUMERIC,
    idle_cost NUMERIC,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_usage_record PRIMARY KEY (attempt_id, starts_at, revision)
);
COMMENT ON TABLE usage_record IS 'What an attempt used in an hour. Rows never change: a correction is a row of its own';
COMMENT ON COLUMN usage_record.starts_at IS 'a full hour, UTC';
COMMENT ON COLUMN usage_record.revision IS '0: as the hour was closed; others add to it';
COMMENT ON COLUMN usage_record.price_per_hour IS 'USD for all parts, the last one of the hour';
COMMENT ON COLUMN usage_record.compute_cost IS 'USD, not rounded';
COMMENT ON COLUMN usage_record.disk_cost IS 'USD, not rounded';
COMMENT ON COLUMN usage_record.address_cost IS 'USD, not rounded';
COMMENT ON COLUMN usage_record.list_cost IS 'USD, not rounded';
COMMENT ON COLUMN usage_record.idle_gpu_hours IS 'NULL: unknown';
COMMENT ON COLUMN usage_record.idle_cost IS 'USD; NULL: unknown';
CREATE INDEX ix_usage_record_lease_id ON usage_record (lease_id, starts_at);
CREATE INDEX ix_usage_record_starts_at ON usage_record (starts_at);
CREATE INDEX ix_usage_record_tenant_id_starts_at ON usage_record (tenant_id, starts_at);

CREATE TABLE usage_rollup (
    tenant_id TEXT COLLATE "C" NOT NULL,
    step TEXT NOT NULL,
    starts_at TIMESTAMP WITH TIME ZONE NOT NULL,
    provider TEXT NOT NULL,
    gpu_model TEXT NOT NULL,
    gpu_seconds NUMERIC NOT NULL,
    volume_gib_seconds NUMERIC DEFAULT '0' NOT NULL,
    cost NUMERIC NOT NULL,
    leases_created INTEGER NOT NULL,
    leases_ready INTEGER NOT NULL,
    leases_failed INTEGER NOT NULL,
    capacity_failures INTEGER NOT NULL,
    interruptions INTEGER NOT NULL,
    ready_seconds_p50 FLOAT,
    ready_seconds_p95 FLOAT,
    CONSTRAINT pk_usage_rollup PRIMARY KEY (tenant_id, step, starts_at, provider, gpu_model),
    CONSTRAINT ck_usage_rollup_step CHECK (step IN ('hour', 'day'))
);
COMMENT ON TABLE usage_rollup IS 'A row is a sum over one step; * in a column stands for all. No row: nothing was used';
COMMENT ON COLUMN usage_rollup.tenant_id IS '*: all tenants';
COMMENT ON COLUMN usage_rollup.provider IS '*: all providers';
COMMENT ON COLUMN usage_rollup.gpu_model IS '*: all GPU models; volume: volumes';
COMMENT ON COLUMN usage_rollup.cost IS 'USD, not rounded';
CREATE INDEX ix_usage_rollup_by_tenant ON usage_rollup (step, starts_at) WHERE provider = '*' AND gpu_model = '*' AND tenant_id <> '*';
CREATE INDEX ix_usage_rollup_step_starts_at ON usage_rollup (step, starts_at);

CREATE TABLE worker_heartbeat (
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    host TEXT,
    started_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_worker_heartbeat PRIMARY KEY (name)
);

CREATE TABLE account_check (
    account TEXT NOT NULL,
    checked_at TIMESTAMP WITH TIME ZONE,
    requested_at TIMESTAMP WITH TIME ZONE,
    failed INTEGER,
    checks JSONB,
    CONSTRAINT pk_account_check PRIMARY KEY (account),
    CONSTRAINT fk_account_check_account FOREIGN KEY(account) REFERENCES account (name)
);
COMMENT ON COLUMN account_check.checked_at IS 'end of the last run; NULL: none yet';
COMMENT ON COLUMN account_check.requested_at IS 'an operator wants another run';
COMMENT ON COLUMN account_check.failed IS 'failed checks of the last run';
COMMENT ON COLUMN account_check.checks IS '[{subject, name, result, detail, fix, region}]';

CREATE TABLE account_region (
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    last_listing_started_at TIMESTAMP WITH TIME ZONE,
    last_complete_listing_at TIMESTAMP WITH TIME ZONE,
    listed INTEGER,
    last_watched_at TIMESTAMP WITH TIME ZONE,
    listing_calls INTEGER,
    listing_seconds NUMERIC(10, 3),
    cycles INTEGER DEFAULT '0' NOT NULL,
    rowless_cycles INTEGER DEFAULT '0' NOT NULL,
    last_error JSONB,
    service_quotas JSONB,
    image_gib JSONB,
    blocked_until TIMESTAMP WITH TIME ZONE,
    blocked_since TIMESTAMP WITH TIME ZONE,
    blocked_by JSONB,
    vanishing JSONB DEFAULT '{}' NOT NULL,
    cordons JSONB DEFAULT '[]' NOT NULL,
    CONSTRAINT pk_account_region PRIMARY KEY (account, region),
    CONSTRAINT fk_account_region_account FOREIGN KEY(account) REFERENCES account (name)
);
COMMENT ON COLUMN account_region.last_listing_started_at IS 'start of the last listing that did not break off';
COMMENT ON COLUMN account_region.last_complete_listing_at IS 'start of the last one that was believed and covered every VM';
COMMENT ON COLUMN account_region.listed IS 'VMs in it';
COMMENT ON COLUMN account_region.last_watched_at IS 'start of the last look at the VMs in change that showed one';
COMMENT ON COLUMN account_region.image_gib IS '{image_key: GiB}: the least boot disk of the images that were looked up';
COMMENT ON COLUMN account_region.blocked_until IS 'no launch before, since the provider refuses every one';
COMMENT ON COLUMN account_region.blocked_since IS 'of the first such refusal in a row';
COMMENT ON COLUMN account_region.blocked_by IS '{class, code, message} of the newest such refusal';
COMMENT ON COLUMN account_region.vanishing IS '{tenant_id: cycles in a row with a mass loss of its VMs}';
COMMENT ON COLUMN account_region.cordons IS 'of offerings: [{zone, instance_type, market, by, since, note}]; null: each zone, type or market';

CREATE TABLE api_key (
    id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C",
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    secret_hash BYTEA NOT NULL,
    previous_secret_hash BYTEA,
    previous_valid_until TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    last_used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_api_key PRIMARY KEY (id),
    CONSTRAINT ck_api_key_role CHECK (role IN ('operator', 'admin', 'member', 'viewer', 'deadman')),
    CONSTRAINT ck_api_key_scope CHECK ((role IN ('operator', 'deadman')) = (tenant_id IS NULL)),
    CONSTRAINT fk_api_key_tenant_id FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);
COMMENT ON COLUMN api_key.tenant_id IS 'NULL for the roles operator and deadman';
COMMENT ON COLUMN api_key.secret_hash IS 'SHA-256 of the 256-bit random secret';
CREATE INDEX ix_api_key_tenant_id_id ON api_key (tenant_id, id);

CREATE TABLE budget_turn (
    tenant_id TEXT COLLATE "C" NOT NULL,
    taken_at TIMESTAMP WITH TIME ZONE NOT NULL,
    positions JSONB DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_budget_turn PRIMARY KEY (tenant_id),
    CONSTRAINT fk_budget_turn_tenant_id FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);
COMMENT ON TABLE budget_turn IS 'When the job last applied the budgets of a tenant';
COMMENT ON COLUMN budget_turn.positions IS 'where the next look of each lane begins';

CREATE TABLE invoice_line (
    row_id BIGINT GENERATED ALWAYS AS IDENTITY,
    import_id TEXT COLLATE "C" NOT NULL,
    day DATE NOT NULL,
    provider TEXT NOT NULL,
    billing_account TEXT,
    resource_id TEXT NOT NULL,
    charge_category TEXT NOT NULL,
    service TEXT,
    cost NUMERIC NOT NULL,
    lease_id TEXT COLLATE "C",
    installation TEXT,
    is_vm BOOLEAN NOT NULL,
    CONSTRAINT pk_invoice_line PRIMARY KEY (row_id),
    CONSTRAINT fk_invoice_line_import_id FOREIGN KEY(import_id) REFERENCES invoice_import (id) ON DELETE CASCADE
);
COMMENT ON COLUMN invoice_line.day IS 'UTC';
COMMENT ON COLUMN invoice_line.resource_id IS 'in the form of attempt.instance_id where it is a VM';
COMMENT ON COLUMN invoice_line.cost IS 'USD: EffectiveCost';
COMMENT ON COLUMN invoice_line.lease_id IS 'from the tags; on the disk of a volume, the volume''s id';
COMMENT ON COLUMN invoice_line.installation IS 'from the tags';
CREATE INDEX ix_invoice_line_day ON invoice_line (day, resource_id);
CREATE INDEX ix_invoice_line_import_id ON invoice_line (import_id);

CREATE TABLE lease (
    id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    name TEXT NOT NULL,
    labels JSONB DEFAULT '{}' NOT NULL,
    request JSONB NOT NULL,
    on_interruption TEXT DEFAULT 'end' NOT NULL,
    minimum_claim JSONB NOT NULL,
    estimated_price_per_hour NUMERIC(14, 6),
    minimum_rate NUMERIC(14, 6),
    max_rate NUMERIC(14, 6),
    key_id TEXT COLLATE "C",
    max_cost NUMERIC(14, 6),
    cost_reached_at TIMESTAMP WITH TIME ZONE,
    cap_told BOOLEAN DEFAULT false NOT NULL,
    quote_id TEXT COLLATE "C",
    volume_place JSONB,
    expiry_warnings JSONB,
    unique_name BOOLEAN,
    state TEXT DEFAULT 'queued' NOT NULL,
    desired TEXT DEFAULT 'run' NOT NULL,
    reason JSONB,
    placement JSONB,
    provider TEXT,
    account TEXT,
    region TEXT,
    gpu_model TEXT,
    gpu_count INTEGER,
    connection JSONB,
    interruption JSONB,
    ssh_host_keys JSONB,
    health TEXT,
    proof JSONB,
    gpu_health JSONB,
    keep_until TIMESTAMP WITH TIME ZONE,
    idle_told INTEGER DEFAULT '0' NOT NULL,
    idle_told_for TIMESTAMP WITH TIME ZONE,
    idle_evidence JSONB,
    attempts_count INTEGER DEFAULT '0' NOT NULL,
    events_count INTEGER DEFAULT '0' NOT NULL,
    version INTEGER DEFAULT '1' NOT NULL,
    cost_closed NUMERIC(14, 6) DEFAULT '0' NOT NULL,
    rate_per_hour NUMERIC(14, 6),
    disk_rate_per_hour NUMERIC(14, 6),
    address_rate_per_hour NUMERIC(14, 6),
    rate_since TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    first_attempt_at TIMESTAMP WITH TIME ZONE,
    launched_at TIMESTAMP WITH TIME ZONE,
    running_at TIMESTAMP WITH TIME ZONE,
    ready_at TIMESTAMP WITH TIME ZONE,
    billing_started_at TIMESTAMP WITH TIME ZONE,
    billing_ended_at TIMESTAMP WITH TIME ZONE,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    wait_until TIMESTAMP WITH TIME ZONE NOT NULL,
    pass_started_at TIMESTAMP WITH TIME ZONE,
    release_requested_at TIMESTAMP WITH TIME ZONE,
    reboot_requested_at TIMESTAMP WITH TIME ZONE,
    provider_gone_at TIMESTAMP WITH TIME ZONE,
    ended_at TIMESTAMP WITH TIME ZONE,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    deadline_applied TIMESTAMP WITH TIME ZONE,
    term_in_doubt BOOLEAN DEFAULT false NOT NULL,
    request_id TEXT,
    group_id TEXT COLLATE "C",
    rank INTEGER,
    group_pool JSONB,
    group_retreat BOOLEAN DEFAULT false NOT NULL,
    group_check JSONB,
    expiry_told_for TIMESTAMP WITH TIME ZONE,
    expiry_told_seconds INTEGER,
    next_due TIMESTAMP WITH TIME ZONE DEFAULT now(),
    wake_count BIGINT DEFAULT '0' NOT NULL,
    claim_id UUID,
    held_until TIMESTAMP WITH TIME ZONE,
    slot_bucket TEXT,
    slot_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_lease PRIMARY KEY (id),
    CONSTRAINT ck_lease_state CHECK (state IN ('queued', 'provisioning', 'booting', 'active', 'releasing', 'released', 'failed')),
    CONSTRAINT ck_lease_desired CHECK (desired IN ('run', 'end')),
    CONSTRAINT ck_lease_on_interruption CHECK (on_interruption IN ('end', 'replace')),
    CONSTRAINT ck_lease_terminal CHECK ((state IN ('failed', 'released')) = (ended_at IS NOT NULL) AND (NOT state IN ('failed', 'released') OR (desired = 'end' AND next_due IS NULL))),
    CONSTRAINT ck_lease_terminal_unbilled CHECK (NOT state IN ('failed', 'released') OR (rate_per_hour IS NULL AND rate_since IS NULL)),
    CONSTRAINT ck_lease_rate CHECK ((rate_per_hour IS NULL) = (rate_since IS NULL)),
    CONSTRAINT ck_lease_active CHECK (state <> 'active' OR (ready_at IS NOT NULL AND desired = 'run')),
    CONSTRAINT ck_lease_releasing CHECK (state <> 'releasing' OR desired = 'end'),
    CONSTRAINT ck_lease_rank CHECK ((group_id IS NULL) = (rank IS NULL)),
    CONSTRAINT fk_lease_tenant_id FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);
COMMENT ON COLUMN lease.request IS 'as received, defaults filled in, without the startup script';
COMMENT ON COLUMN lease.minimum_claim IS 'quota held while no offering is chosen';
COMMENT ON COLUMN lease.estimated_price_per_hour IS 'USD, all parts: of the newest attempt, or of the first candidate at creation';
COMMENT ON COLUMN lease.minimum_rate IS 'USD an hour: the least that any candidate costs, all parts; NULL: rebuilt from the tags of its VM';
COMMENT ON COLUMN lease.max_rate IS 'USD an hour, all parts: the rate of its quote; NULL: no quote';
COMMENT ON COLUMN lease.key_id IS 'the API key that created it; NULL: unknown';
COMMENT ON COLUMN lease.max_cost IS 'USD: the lease ends before it costs more; NULL: no cap';
COMMENT ON COLUMN lease.cost_reached_at IS 'when the cost reaches max_cost at the present rate; NULL: no cap, or not billed';
COMMENT ON COLUMN lease.cap_told IS 'that 80 % of max_cost is spent';
COMMENT ON COLUMN lease.quote_id IS 'the quote that it was created from';
COMMENT ON COLUMN lease.volume_place IS '{account, region, zone, kinds} of its volumes; NULL: it has none';
COMMENT ON COLUMN lease.expiry_warnings IS 'seconds before the end at which its owner is warned; NULL: the installation''s';
COMMENT ON COLUMN lease.unique_name IS 'true: no other live lease of the tenant with true has this name; NULL: not checked';
COMMENT ON COLUMN lease.ssh_host_keys IS 'as the VM of the newest attempt reported them, once';
COMMENT ON COLUMN lease.health IS 'unused; see gpu_health';
COMMENT ON COLUMN lease.proof IS 'of the newest attempt: its number n, its boot_id and what the API shows';
COMMENT ON COLUMN lease.gpu_health IS 'of the newest attempt: its number n and what the API shows';
COMMENT ON COLUMN lease.keep_until IS 'idleness does not count before';
COMMENT ON COLUMN lease.idle_told IS 'warnings that it ends for idleness';
COMMENT ON COLUMN lease.idle_told_for IS 'when it counts as idle, as idle_told says';
COMMENT ON COLUMN lease.idle_evidence IS 'the samples for which idleness was found';
COMMENT ON COLUMN lease.rate_per_hour IS 'USD for all parts; NULL while nothing is billed';
COMMENT ON COLUMN lease.disk_rate_per_hour IS 'USD, the part for disks; NULL: not metered, or nothing is billed';
COMMENT ON COLUMN lease.address_rate_per_hour IS 'USD, the part for the public address; NULL: as above';
COMMENT ON COLUMN lease.pass_started_at IS 'start of the present pass over the candidates';
COMMENT ON COLUMN lease.reboot_requested_at IS 'a reboot that is requested and not sent yet';
COMMENT ON COLUMN lease.deadline_applied IS 'the deadline last written to the provider''s tags';
COMMENT ON COLUMN lease.term_in_doubt IS 'a hold was set, and the deadline tag of its VM was not read since';
COMMENT ON COLUMN lease.request_id IS 'of the last request that changed it';
COMMENT ON COLUMN lease.group_id IS 'the group that it is a member of';
COMMENT ON COLUMN lease.rank IS '0 to size - 1 within its group';
COMMENT ON COLUMN lease.group_pool IS 'the only pool that it may be placed in; NULL in a group: it waits for one';
COMMENT ON COLUMN lease.group_retreat IS 'its VM is ended, since its group did not form in this pool';
COMMENT ON COLUMN lease.group_check IS 'what the VM of a group''s member found when it last checked its group';
COMMENT ON COLUMN lease.expiry_told_for IS 'the expires_at of which its owner was warned';
COMMENT ON COLUMN lease.expiry_told_seconds IS 'the latest of the warnings before that time';
COMMENT ON COLUMN lease.next_due IS 'NULL: nothing to do before somebody wakes it';
COMMENT ON COLUMN lease.slot_bucket IS 'the rate bucket in which a launch slot is reserved';
CREATE INDEX ix_lease_created_at ON lease (created_at, id);
CREATE INDEX ix_lease_due ON lease (next_due) WHERE next_due IS NOT NULL;
CREATE INDEX ix_lease_ended_at ON lease (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX ix_lease_expires_at_live ON lease (expires_at) WHERE NOT state IN ('failed', 'released');
CREATE INDEX ix_lease_group_id_rank ON lease (group_id, rank) WHERE group_id IS NOT NULL;
CREATE INDEX ix_lease_labels ON lease USING gin (labels jsonb_path_ops);
CREATE INDEX ix_lease_live ON lease (created_at, id) WHERE NOT state IN ('failed', 'released');
CREATE UNIQUE INDEX ix_lease_live_name ON lease (tenant_id, name, unique_name) WHERE NOT state IN ('failed', 'released');
CREATE INDEX ix_lease_place_live ON lease (account, region) WHERE NOT state IN ('failed', 'released');
CREATE INDEX ix_lease_ready_at ON lease (ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX ix_lease_tenant_id_created_at ON lease (tenant_id, created_at, id);
CREATE INDEX ix_lease_tenant_id_live ON lease (tenant_id, created_at, id) WHERE NOT state IN ('failed', 'released');
CREATE INDEX ix_lease_tenant_id_updated_at ON lease (tenant_id, updated_at, id);

CREATE TABLE lease_group (
    id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C",
    name TEXT NOT NULL,
    size INTEGER NOT NULL,
    min_size INTEGER NOT NULL,
    lease JSONB NOT NULL,
    placement TEXT NOT NULL,
    interconnect TEXT NOT NULL,
    form_seconds INTEGER NOT NULL,
    on_member_loss TEXT NOT NULL,
    state TEXT DEFAULT 'queued' NOT NULL,
    desired TEXT DEFAULT 'run' NOT NULL,
    reason JSONB,
    pool JSONB,
    pools_tried JSONB DEFAULT '[]' NOT NULL,
    pool_started_at TIMESTAMP WITH TIME ZONE,
    wait_until TIMESTAMP WITH TIME ZONE NOT NULL,
    formed_at TIMESTAMP WITH TIME ZONE,
    release_requested_at TIMESTAMP WITH TIME ZONE,
    ended_at TIMESTAMP WITH TIME ZONE,
    version INTEGER DEFAULT '1' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    next_due TIMESTAMP WITH TIME ZONE DEFAULT now(),
    CONSTRAINT pk_lease_group PRIMARY KEY (id),
    CONSTRAINT ck_lease_group_state CHECK (state IN ('queued', 'forming', 'active', 'degraded', 'releasing', 'ended')),
    CONSTRAINT ck_lease_group_desired CHECK (desired IN ('run', 'end')),
    CONSTRAINT ck_lease_group_placement CHECK (placement IN ('any', 'same_zone', 'cluster')),
    CONSTRAINT ck_lease_group_interconnect CHECK (interconnect IN ('none', 'preferred', 'required')),
    CONSTRAINT ck_lease_group_on_member_loss CHECK (on_member_loss IN ('end', 'replace', 'keep')),
    CONSTRAINT ck_lease_group_size CHECK (1 <= min_size AND min_size <= size),
    CONSTRAINT ck_lease_group_ended CHECK ((state = 'ended') = (ended_at IS NOT NULL)),
    CONSTRAINT fk_lease_group_tenant_id FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);
COMMENT ON TABLE lease_group IS 'Its members are leases with its id and a rank';
COMMENT ON COLUMN lease_group.key_id IS 'the key that created it';
COMMENT ON COLUMN lease_group.size IS 'members wanted';
COMMENT ON COLUMN lease_group.min_size IS 'members without which it does not run';
COMMENT ON COLUMN lease_group.lease IS 'the request of each member, as received';
COMMENT ON COLUMN lease_group.form_seconds IS 'how long its members may take to be ready in one pool';
COMMENT ON COLUMN lease_group.pool IS '{account, region, zone, instance_type, market}; NULL: none is chosen';
COMMENT ON COLUMN lease_group.pools_tried IS 'pools that did not form it';
COMMENT ON COLUMN lease_group.wait_until IS 'no pool is tried later';
COMMENT ON COLUMN lease_group.formed_at IS 'when it became active first';
COMMENT ON COLUMN lease_group.next_due IS 'when a worker looks at it next; NULL: it has ended';
CREATE INDEX ix_lease_group_next_due ON lease_group (next_due) WHERE next_due IS NOT NULL;
CREATE INDEX ix_lease_group_tenant_id_id ON lease_group (tenant_id, id);
CREATE UNIQUE INDEX ix_lease_group_tenant_id_name ON lease_group (tenant_id, name) WHERE state <> 'ended';

CREATE TABLE offering (
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    zone TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    market TEXT NOT NULL,
    provider TEXT NOT NULL,
    gpu_model TEXT NOT NULL,
    gpu_count INTEGER NOT NULL,
    gpu_memory_gib INTEGER NOT NULL,
    gpu_interconnect TEXT NOT NULL,
    gpu_nvlink INTEGER,
    gpu_driver TEXT DEFAULT 'nvidia' NOT NULL,
    gpu_parts INTEGER DEFAULT '1' NOT NULL,
    vcpus INTEGER NOT NULL,
    memory_gib NUMERIC(10, 2) NOT NULL,
    local_disk_gib INTEGER DEFAULT '0' NOT NULL,
    network_gbps NUMERIC(10, 2),
    network_fabric TEXT,
    obstacle TEXT,
    price_per_hour NUMERIC(14, 6),
    price_as_of TIMESTAMP WITH TIME ZONE,
    price_source TEXT,
    price_live BOOLEAN DEFAULT false NOT NULL,
    cool_until TIMESTAMP WITH TIME ZONE,
    cool_reason TEXT,
    cool_code TEXT,
    cool_count INTEGER DEFAULT '0' NOT NULL,
    refused_at TIMESTAMP WITH TIME ZONE,
    suspicion JSONB,
    launches INTEGER DEFAULT '0' NOT NULL,
    refusals INTEGER DEFAULT '0' NOT NULL,
    ready_seconds NUMERIC(10, 3),
    refreshed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_offering PRIMARY KEY (account, region, zone, instance_type, market),
    CONSTRAINT ck_offering_market CHECK (market IN ('on_demand', 'spot')),
    CONSTRAINT fk_offering_account FOREIGN KEY(account) REFERENCES account (name)
);
COMMENT ON COLUMN offering.gpu_nvlink IS 'NVLink generation';
COMMENT ON COLUMN offering.gpu_driver IS 'the driver that an image needs';
COMMENT ON COLUMN offering.gpu_parts IS 'parts that each GPU is divided into';
COMMENT ON COLUMN offering.network_gbps IS 'NULL: unknown';
COMMENT ON COLUMN offering.obstacle IS 'why the account cannot buy it; NULL: it can';
COMMENT ON COLUMN offering.price_live IS 'the provider returned it; else from the adapter''s own list';
COMMENT ON COLUMN offering.refused_at IS 'when it last refused; NULL: never';
COMMENT ON COLUMN offering.suspicion IS '{tenant_id, reason, code, until}: what VMs of one tenant alone show';
COMMENT ON COLUMN offering.ready_seconds IS 'moving average of launch to ready';

CREATE TABLE part_price (
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    part TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    price NUMERIC(14, 6) NOT NULL,
    price_as_of TIMESTAMP WITH TIME ZONE NOT NULL,
    price_source TEXT NOT NULL,
    price_live BOOLEAN NOT NULL,
    CONSTRAINT pk_part_price PRIMARY KEY (account, region, part, instance_type),
    CONSTRAINT ck_part_price_part CHECK (part IN ('disk', 'address')),
    CONSTRAINT ck_part_price_price CHECK (price >= 0),
    CONSTRAINT fk_part_price_account FOREIGN KEY(account) REFERENCES account (name)
);
COMMENT ON TABLE part_price IS 'Prices of what a VM has besides compute: its network disk and its public address';
COMMENT ON COLUMN part_price.part IS 'disk: USD a GiB and month; address: USD an hour';
COMMENT ON COLUMN part_price.instance_type IS '*: every type without a row of its own';
COMMENT ON COLUMN part_price.price_live IS 'the provider returned it; else from a list';

CREATE TABLE quota (
    tenant_id TEXT COLLATE "C" NOT NULL,
    resource TEXT NOT NULL,
    "limit" NUMERIC(14, 6),
    used NUMERIC(14, 6) DEFAULT '0' NOT NULL,
    spent NUMERIC(14, 6) DEFAULT '0' NOT NULL,
    nearly_told BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT pk_quota PRIMARY KEY (tenant_id, resource),
    CONSTRAINT ck_quota_amounts CHECK (used >= 0 AND ("limit" IS NULL OR "limit" >= 0)),
    CONSTRAINT ck_quota_resource CHECK (resource IN ('gpus', 'leases', 'spend_per_hour', 'volume_gib') OR resource ~ '^(gpus|budget):.+'),
    CONSTRAINT fk_quota_tenant_id FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);
COMMENT ON COLUMN quota."limit" IS 'NULL: no limit row. Not allowed for gpus, unlimited for the rest';
COMMENT ON COLUMN quota.used IS 'the sum of the claims';
COMMENT ON COLUMN quota.spent IS 'of a budget: USD of leases that ended in its period';
COMMENT ON COLUMN quota.nearly_told IS 'its warning was sent, and its use has not fallen far enough since to send another';

CREATE TABLE quote (
    id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    request JSONB NOT NULL,
    plan JSONB NOT NULL,
    price_per_hour NUMERIC(14, 6) NOT NULL,
    total NUMERIC(14, 6) NOT NULL,
    valid_until TIMESTAMP WITH TIME ZONE NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_quote PRIMARY KEY (id),
    CONSTRAINT fk_quote_tenant_id FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);
COMMENT ON COLUMN quote.key_id IS 'the key of the request';
COMMENT ON COLUMN quote.request IS 'as stored on a lease';
COMMENT ON COLUMN quote.price_per_hour IS 'USD an hour, all parts: a lease from it is launched at no more';
COMMENT ON COLUMN quote.total IS 'USD for the term';
CREATE INDEX ix_quote_tenant_id_id ON quote (tenant_id, id);
CREATE INDEX ix_quote_valid_until ON quote (valid_until);

CREATE TABLE reservation (
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    provider TEXT NOT NULL,
    region TEXT NOT NULL,
    zone TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    gpu_model TEXT NOT NULL,
    gpu_count INTEGER NOT NULL,
    gpu_memory_gib INTEGER NOT NULL,
    gpu_interconnect TEXT NOT NULL,
    gpu_nvlink INTEGER,
    gpu_driver TEXT NOT NULL,
    gpu_parts INTEGER NOT NULL,
    vcpus INTEGER NOT NULL,
    memory_gib NUMERIC(10, 2) NOT NULL,
    local_disk_gib INTEGER NOT NULL,
    network_gbps NUMERIC(10, 2),
    network_fabric TEXT,
    price_per_hour NUMERIC(14, 6) NOT NULL,
    tenants TEXT[] NOT NULL,
    slots INTEGER,
    free INTEGER,
    starts_at TIMESTAMP WITH TIME ZONE,
    ends_at TIMESTAMP WITH TIME ZONE,
    shortest_wait INTEGER,
    longest_run INTEGER,
    problem TEXT,
    observed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    cool_until TIMESTAMP WITH TIME ZONE,
    cool_reason TEXT,
    cool_code TEXT,
    cool_count INTEGER DEFAULT '0' NOT NULL,
    refused_at TIMESTAMP WITH TIME ZONE,
    suspicion JSONB,
    launches INTEGER DEFAULT '0' NOT NULL,
    refusals INTEGER DEFAULT '0' NOT NULL,
    ready_seconds NUMERIC(10, 3),
    CONSTRAINT pk_reservation PRIMARY KEY (account, name),
    CONSTRAINT fk_reservation_account FOREIGN KEY(account) REFERENCES account (name)
);
COMMENT ON TABLE reservation IS 'Its policy shows a tenant the reservations that it may use';
COMMENT ON COLUMN reservation.name IS 'in the account''s settings';
COMMENT ON COLUMN reservation.gpu_nvlink IS 'NVLink generation';
COMMENT ON COLUMN reservation.gpu_driver IS 'the driver that an image needs';
COMMENT ON COLUMN reservation.gpu_parts IS 'parts that each GPU is divided into';
COMMENT ON COLUMN reservation.network_gbps IS 'NULL: unknown';
COMMENT ON COLUMN reservation.price_per_hour IS 'USD that a lease is billed';
COMMENT ON COLUMN reservation.tenants IS 'ids of those that may use it; empty: all';
COMMENT ON COLUMN reservation.slots IS 'VMs at a time; NULL: no fixed number';
COMMENT ON COLUMN reservation.free IS 'as the provider reported it at observed_at; NULL: no fixed number';
COMMENT ON COLUMN reservation.ends_at IS 'when the provider begins to end VMs';
COMMENT ON COLUMN reservation.shortest_wait IS 'seconds in the provider''s queue; NULL: no queue';
COMMENT ON COLUMN reservation.longest_run IS 'seconds of one VM';
COMMENT ON COLUMN reservation.problem IS 'why the provider accepts no VM';
COMMENT ON COLUMN reservation.observed_at IS 'before the provider was asked';
COMMENT ON COLUMN reservation.refused_at IS 'when it last refused; NULL: never';
COMMENT ON COLUMN reservation.suspicion IS '{tenant_id, reason, code, until}: what VMs of one tenant alone show';
COMMENT ON COLUMN reservation.ready_seconds IS 'moving average of launch to ready';

CREATE TABLE ssh_key (
    id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    name TEXT NOT NULL,
    public_key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    is_default BOOLEAN DEFAULT false NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_ssh_key PRIMARY KEY (id),
    CONSTRAINT uq_ssh_key_tenant_id_name UNIQUE (tenant_id, name),
    CONSTRAINT fk_ssh_key_tenant_id FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);
COMMENT ON COLUMN ssh_key.public_key IS 'one line of an authorized_keys file';
COMMENT ON COLUMN ssh_key.fingerprint IS 'SHA-256, as OpenSSH writes it';
COMMENT ON COLUMN ssh_key.is_default IS 'a lease of its owner gets it if the request names no key';
COMMENT ON COLUMN ssh_key.key_id IS 'the owner: the API key that stored it';
CREATE INDEX ix_ssh_key_tenant_id_id ON ssh_key (tenant_id, id);

CREATE TABLE webhook (
    id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    url TEXT NOT NULL,
    description TEXT,
    event_types JSONB,
    format TEXT DEFAULT 'standard' NOT NULL,
    enabled BOOLEAN DEFAULT true NOT NULL,
    disabled_reason TEXT,
    position BIGINT NOT NULL,
    version INTEGER DEFAULT '1' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    next_due TIMESTAMP WITH TIME ZONE,
    waits_until TIMESTAMP WITH TIME ZONE,
    slow BOOLEAN DEFAULT false NOT NULL,
    claim_id UUID,
    held_until TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_webhook PRIMARY KEY (id),
    CONSTRAINT ck_webhook_disabled CHECK (enabled = (disabled_reason IS NULL)),
    CONSTRAINT ck_webhook_format CHECK (format IN ('standard', 'slack', 'cloudevents')),
    CONSTRAINT fk_webhook_tenant_id FOREIGN KEY(tenant_id) REFERENCES tenant (id)
);
COMMENT ON COLUMN webhook.event_types IS 'NULL: every type';
COMMENT ON COLUMN webhook.format IS 'of the bodies';
COMMENT ON COLUMN webhook.disabled_reason IS 'by_user, or gone: the receiver answered 410';
COMMENT ON COLUMN webhook.position IS 'number of the last event that deliveries were made of';
COMMENT ON COLUMN webhook.next_due IS 'NULL: nothing to deliver';
COMMENT ON COLUMN webhook.waits_until IS 'the receiver takes nothing at present: everything waits';
COMMENT ON COLUMN webhook.slow IS 'its last answer took long';
CREATE INDEX ix_webhook_next_due ON webhook (next_due) WHERE enabled AND next_due IS NOT NULL;
CREATE INDEX ix_webhook_tenant_id_id ON webhook (tenant_id, id);

CREATE TABLE attempt (
    id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    n INTEGER NOT NULL,
    provider TEXT NOT NULL,
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    zone TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    market TEXT NOT NULL,
    reservation TEXT,
    reserved_until TIMESTAMP WITH TIME ZONE,
    offering JSONB NOT NULL,
    price_per_hour NUMERIC(14, 6) NOT NULL,
    price_source TEXT,
    price_as_of TIMESTAMP WITH TIME ZONE,
    list_price_per_hour NUMERIC(14, 6),
    disk_gib INTEGER,
    disk_price_per_hour NUMERIC(14, 6),
    address_price_per_hour NUMERIC(14, 6),
    token TEXT NOT NULL,
    params JSONB,
    params_hash TEXT NOT NULL,
    batch_key TEXT,
    batch_id TEXT COLLATE "C",
    batch_index INTEGER,
    host_key_hash BYTEA,
    agent_hash BYTEA,
    state TEXT DEFAULT 'planned' NOT NULL,
    clean BOOLEAN DEFAULT false NOT NULL,
    error JSONB,
    instance_id TEXT,
    operation TEXT,
    vm_state TEXT,
    vm_state_at TIMESTAMP WITH TIME ZONE,
    vm_reason JSONB,
    ready BOOLEAN DEFAULT false NOT NULL,
    public_ip TEXT,
    private_ip TEXT,
    first_sent_at TIMESTAMP WITH TIME ZONE,
    last_sent_at TIMESTAMP WITH TIME ZONE,
    unknown_since TIMESTAMP WITH TIME ZONE,
    unreachable_since TIMESTAMP WITH TIME ZONE,
    settling_since TIMESTAMP WITH TIME ZONE,
    empty_listings INTEGER DEFAULT '0' NOT NULL,
    last_empty_listing_at TIMESTAMP WITH TIME ZONE,
    retry_at TIMESTAMP WITH TIME ZONE,
    known_at TIMESTAMP WITH TIME ZONE,
    terminate_sent_at TIMESTAMP WITH TIME ZONE,
    terminate_tries INTEGER DEFAULT '0' NOT NULL,
    end_accepted BOOLEAN DEFAULT false NOT NULL,
    console_asked_at TIMESTAMP WITH TIME ZONE,
    proof_awaited_at TIMESTAMP WITH TIME ZONE,
    console_proof_tries INTEGER DEFAULT '0' NOT NULL,
    gpu_rebooted_at TIMESTAMP WITH TIME ZONE,
    volumes_attached_at TIMESTAMP WITH TIME ZONE,
    billing_started_at TIMESTAMP WITH TIME ZONE,
    billing_ended_at TIMESTAMP WITH TIME ZONE,
    cost_of_past_prices NUMERIC(14, 6) DEFAULT '0' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_attempt PRIMARY KEY (id),
    CONSTRAINT uq_attempt_lease_id_n UNIQUE (lease_id, n),
    CONSTRAINT ck_attempt_state CHECK (state IN ('planned', 'sent', 'known', 'settling', 'refused', 'dead')),
    CONSTRAINT ck_attempt_vm_state CHECK (vm_state IS NULL OR vm_state IN ('queued', 'pending', 'running', 'ending', 'stopped', 'gone', 'absent')),
    CONSTRAINT ck_attempt_known CHECK (state <> 'known' OR instance_id IS NOT NULL),
    CONSTRAINT ck_attempt_ended CHECK ((state IN ('known', 'planned', 'sent', 'settling')) = (ended_at IS NULL)),
    CONSTRAINT ck_attempt_billing CHECK (state IN ('known', 'planned', 'sent', 'settling') OR billing_started_at IS NULL OR billing_ended_at IS NOT NULL),
    CONSTRAINT ck_attempt_batch CHECK ((batch_id IS NULL) = (batch_index IS NULL)),
    CONSTRAINT fk_attempt_lease_id FOREIGN KEY(lease_id) REFERENCES lease (id),
    CONSTRAINT uq_attempt_token UNIQUE (token)
);
COMMENT ON COLUMN attempt.reservation IS 'its name in the account';
COMMENT ON COLUMN attempt.reserved_until IS 'the latest expiry of a lease in the reservation';
COMMENT ON COLUMN attempt.offering IS 'gpu, vcpus, memory, image as chosen';
COMMENT ON COLUMN attempt.price_per_hour IS 'USD for compute, as planned; changes are rows of attempt_price';
COMMENT ON COLUMN attempt.price_source IS 'where the price is from';
COMMENT ON COLUMN attempt.price_as_of IS 'when the provider stated the price';
COMMENT ON COLUMN attempt.list_price_per_hour IS 'USD: the same machine on demand; NULL: unknown';
COMMENT ON COLUMN attempt.disk_gib IS 'of its network disks; NULL: of a lease that was rebuilt';
COMMENT ON COLUMN attempt.disk_price_per_hour IS 'USD for all disks; NULL: not metered';
COMMENT ON COLUMN attempt.address_price_per_hour IS 'USD for its public address; NULL: not metered';
COMMENT ON COLUMN attempt.params IS 'exactly what is sent; NULL once the lease is terminal';
COMMENT ON COLUMN attempt.batch_key IS 'equal where one create call can launch several; NULL: launched alone';
COMMENT ON COLUMN attempt.batch_id IS 'the launch batch that it was sent with';
COMMENT ON COLUMN attempt.batch_index IS 'its slot there';
COMMENT ON COLUMN attempt.host_key_hash IS 'SHA-256 of the token with which the VM reports its keys';
COMMENT ON COLUMN attempt.agent_hash IS 'SHA-256 of the token of the VM''s agent; NULL: the VM has no agent';
COMMENT ON COLUMN attempt.clean IS 'nothing is left that costs money';
COMMENT ON COLUMN attempt.error IS '{class, code, message} of the last failure';
COMMENT ON COLUMN attempt.vm_reason IS '{code, message, interrupted} in the provider''s words';
COMMENT ON COLUMN attempt.unreachable_since IS 'no connection for a send since then';
COMMENT ON COLUMN attempt.retry_at IS 'do not call the provider for this attempt before';
COMMENT ON COLUMN attempt.end_accepted IS 'of a VM that the provider knew';
COMMENT ON COLUMN attempt.console_asked_at IS 'when its console output was requested, which happens once';
COMMENT ON COLUMN attempt.proof_awaited_at IS 'since when the ready VM is waited for to prove its GPUs';
COMMENT ON COLUMN attempt.console_proof_tries IS 'reads of the console for it';
COMMENT ON COLUMN attempt.gpu_rebooted_at IS 'rebooted for its GPUs, once';
COMMENT ON COLUMN attempt.volumes_attached_at IS 'when all volumes of its lease were attached to its VM';
COMMENT ON COLUMN attempt.cost_of_past_prices IS 'USD, a part of lease.cost_closed already';
CREATE UNIQUE INDEX ix_attempt_agent_hash ON attempt (agent_hash) WHERE agent_hash IS NOT NULL;
CREATE UNIQUE INDEX ix_attempt_batch ON attempt (batch_id, batch_index) WHERE batch_id IS NOT NULL;
CREATE INDEX ix_attempt_batch_key ON attempt (tenant_id, batch_key) WHERE batch_key IS NOT NULL AND state = 'planned';
CREATE INDEX ix_attempt_billing_ended_at ON attempt (billing_ended_at) WHERE billing_started_at IS NOT NULL;
CREATE INDEX ix_attempt_ended_at ON attempt (ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX ix_attempt_host_key_hash ON attempt (host_key_hash) WHERE host_key_hash IS NOT NULL;
CREATE INDEX ix_attempt_instance ON attempt (account, region, instance_id);
CREATE UNIQUE INDEX ix_attempt_live_lease ON attempt (lease_id) WHERE state IN ('known', 'planned', 'sent', 'settling');
CREATE INDEX ix_attempt_live_place ON attempt (account, region, state) WHERE state IN ('known', 'planned', 'sent', 'settling');
CREATE INDEX ix_attempt_live_reservation ON attempt (account, reservation) WHERE reservation IS NOT NULL AND state IN ('known', 'planned', 'sent', 'settling');
CREATE INDEX ix_attempt_unclean ON attempt (lease_id) WHERE NOT clean;

CREATE TABLE budget (
    id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    kind TEXT NOT NULL,
    key_id TEXT COLLATE "C",
    label_key TEXT,
    label_value TEXT,
    period TEXT NOT NULL,
    period_started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    period_ends_at TIMESTAMP WITH TIME ZONE,
    amount NUMERIC(14, 6) NOT NULL,
    thresholds JSONB NOT NULL,
    threshold_told INTEGER DEFAULT '0' NOT NULL,
    when_exceeded TEXT NOT NULL,
    set_by TEXT NOT NULL,
    version INTEGER DEFAULT '1' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_budget PRIMARY KEY (id),
    CONSTRAINT ck_budget_kind CHECK (kind IN ('tenant', 'key', 'label')),
    CONSTRAINT ck_budget_scope CHECK ((kind = 'key') = (key_id IS NOT NULL) AND (kind = 'label') = (label_key IS NOT NULL) AND (label_key IS NULL) = (label_value IS NULL)),
    CONSTRAINT ck_budget_period CHECK (period IN ('day', 'month', 'lifetime')),
    CONSTRAINT ck_budget_period_ends_at CHECK ((period = 'lifetime') = (period_ends_at IS NULL)),
    CONSTRAINT ck_budget_when_exceeded CHECK (when_exceeded IN ('notify', 'refuse', 'end')),
    CONSTRAINT ck_budget_set_by CHECK (set_by IN ('operator', 'admin')),
    CONSTRAINT ck_budget_amount CHECK (amount >= 0),
    CONSTRAINT fk_budget_tenant_id FOREIGN KEY(tenant_id) REFERENCES tenant (id),
    CONSTRAINT fk_budget_key_id FOREIGN KEY(key_id) REFERENCES api_key (id)
);
COMMENT ON TABLE budget IS 'What it has spent and committed is its row of quota, with the resource budget:ID';
COMMENT ON COLUMN budget.kind IS 'whose leases it counts';
COMMENT ON COLUMN budget.key_id IS 'kind key: leases that this key created';
COMMENT ON COLUMN budget.label_key IS 'kind label: leases with this label';
COMMENT ON COLUMN budget.period_started_at IS 'UTC; of a lifetime: the creation';
COMMENT ON COLUMN budget.period_ends_at IS 'NULL: never';
COMMENT ON COLUMN budget.amount IS 'USD';
COMMENT ON COLUMN budget.thresholds IS 'percent of the amount, ascending';
COMMENT ON COLUMN budget.threshold_told IS 'the highest one with an event in this period';
COMMENT ON COLUMN budget.set_by IS 'the role that owns it: admins do not change what operators set';
CREATE INDEX ix_budget_period_ends_at ON budget (period_ends_at) WHERE period_ends_at IS NOT NULL;
CREATE INDEX ix_budget_tenant_id_id ON budget (tenant_id, id);
CREATE INDEX ix_budget_tenant_id_key_id ON budget (tenant_id, key_id);

CREATE TABLE lease_console (
    lease_id TEXT COLLATE "C" NOT NULL,
    n INTEGER NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    text TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_lease_console PRIMARY KEY (lease_id, n),
    CONSTRAINT fk_lease_console_lease_id FOREIGN KEY(lease_id) REFERENCES lease (id)
);
COMMENT ON TABLE lease_console IS 'Last lines of VMs that did not boot; never shown to viewers, kept 7 days';
COMMENT ON COLUMN lease_console.n IS 'which attempt''s VM';
CREATE INDEX ix_lease_console_at ON lease_console (at);

CREATE TABLE lease_secret (
    lease_id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    startup_script TEXT NOT NULL,
    CONSTRAINT pk_lease_secret PRIMARY KEY (lease_id),
    CONSTRAINT fk_lease_secret_lease_id FOREIGN KEY(lease_id) REFERENCES lease (id)
);
COMMENT ON TABLE lease_secret IS 'Never shown to viewers; deleted when the lease is terminal';

CREATE TABLE quota_claim (
    lease_id TEXT COLLATE "C" NOT NULL,
    resource TEXT NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    amount NUMERIC(14, 6) NOT NULL,
    base NUMERIC(14, 6) DEFAULT '0' NOT NULL,
    CONSTRAINT pk_quota_claim PRIMARY KEY (lease_id, resource),
    CONSTRAINT ck_quota_claim_amount CHECK (amount > 0 OR (amount = 0 AND resource LIKE 'budget:%')),
    CONSTRAINT ck_quota_claim_base CHECK (base >= 0),
    CONSTRAINT fk_quota_claim_lease_id FOREIGN KEY(lease_id) REFERENCES lease (id)
);
COMMENT ON TABLE quota_claim IS 'What a lease holds of each quota. Releasing deletes the rows, so it happens once';
COMMENT ON COLUMN quota_claim.base IS 'of a budget: USD of the lease''s cost that its present period does not count';
CREATE INDEX ix_quota_claim_tenant_id_resource ON quota_claim (tenant_id, resource);

CREATE TABLE volume (
    id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    name TEXT NOT NULL,
    labels JSONB DEFAULT '{}' NOT NULL,
    size_gib INTEGER NOT NULL,
    provider TEXT NOT NULL,
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    zone TEXT NOT NULL,
    kind TEXT,
    state TEXT DEFAULT 'creating' NOT NULL,
    reason JSONB,
    lease_id TEXT COLLATE "C",
    last_lease_id TEXT COLLATE "C",
    last_used_at TIMESTAMP WITH TIME ZONE,
    cloud_id TEXT,
    sent_at TIMESTAMP WITH TIME ZONE,
    retry_at TIMESTAMP WITH TIME ZONE DEFAULT now(),
    tries INTEGER DEFAULT '0' NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE,
    missing_since TIMESTAMP WITH TIME ZONE,
    price_per_hour NUMERIC(14, 6),
    billing_started_at TIMESTAMP WITH TIME ZONE,
    billing_ended_at TIMESTAMP WITH TIME ZONE,
    charged_until TIMESTAMP WITH TIME ZONE,
    request_id TEXT,
    version INTEGER DEFAULT '1' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_volume PRIMARY KEY (id),
    CONSTRAINT ck_volume_state CHECK (state IN ('creating', 'available', 'deleting', 'deleted', 'failed', 'lost')),
    CONSTRAINT ck_volume_size_gib CHECK (size_gib BETWEEN 1 AND 16384),
    CONSTRAINT ck_volume_ended CHECK ((state IN ('deleted', 'failed', 'lost')) = (ended_at IS NOT NULL)),
    CONSTRAINT ck_volume_billing CHECK (NOT state IN ('deleted', 'failed', 'lost') OR billing_started_at IS NULL OR billing_ended_at IS NOT NULL),
    CONSTRAINT ck_volume_lease_id CHECK (lease_id IS NULL OR state IN ('available', 'lost')),
    CONSTRAINT ck_volume_available CHECK (state <> 'available' OR cloud_id IS NOT NULL),
    CONSTRAINT fk_volume_tenant_id FOREIGN KEY(tenant_id) REFERENCES tenant (id),
    CONSTRAINT fk_volume_lease_id FOREIGN KEY(lease_id) REFERENCES lease (id)
);
COMMENT ON TABLE volume IS '`size_gib` of a live volume is what the tenant uses of the quota volume_gib';
COMMENT ON COLUMN volume.key_id IS 'the API key that created it';
COMMENT ON COLUMN volume.kind IS 'the provider''s name of the kind of disk; NULL: not created yet';
COMMENT ON COLUMN volume.reason IS '{code, message, origin, retryable}: why it failed, was lost, or is late';
COMMENT ON COLUMN volume.lease_id IS 'the lease that holds it; NULL: it is free';
COMMENT ON COLUMN volume.last_lease_id IS 'the newest lease that held it';
COMMENT ON COLUMN volume.last_used_at IS 'when that lease ended';
COMMENT ON COLUMN volume.cloud_id IS 'the provider''s id of the disk';
COMMENT ON COLUMN volume.sent_at IS 'when the create or delete call was last sent';
COMMENT ON COLUMN volume.retry_at IS 'when the job looks at it next; NULL: nothing to do';
COMMENT ON COLUMN volume.tries IS 'calls in the present state';
COMMENT ON COLUMN volume.seen_at IS 'start of the last listing or read that showed the disk';
COMMENT ON COLUMN volume.missing_since IS 'start of the first complete listing in a row without the disk';
COMMENT ON COLUMN volume.price_per_hour IS 'USD for the whole volume; NULL: not metered';
COMMENT ON COLUMN volume.billing_started_at IS 'when the cloud had the disk';
COMMENT ON COLUMN volume.charged_until IS 'its cost before is in `spent` of its budgets';
COMMENT ON COLUMN volume.request_id IS 'of the last request that changed it';
COMMENT ON COLUMN volume.ended_at IS 'when it was deleted, failed or was lost';
CREATE INDEX ix_volume_billing ON volume (tenant_id, billing_ended_at) WHERE billing_started_at IS NOT NULL;
CREATE INDEX ix_volume_cloud_id ON volume (account, region, cloud_id) WHERE cloud_id IS NOT NULL;
CREATE INDEX ix_volume_lease_id ON volume (lease_id) WHERE lease_id IS NOT NULL;
CREATE UNIQUE INDEX ix_volume_live_name ON volume (tenant_id, name) WHERE NOT (state IN ('deleted', 'failed', 'lost'));
CREATE INDEX ix_volume_place_live ON volume (account, region) WHERE NOT (state IN ('deleted', 'failed', 'lost'));
CREATE INDEX ix_volume_retry_at ON volume (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX ix_volume_tenant_id_id ON volume (tenant_id, id);

CREATE TABLE webhook_delivery (
    id TEXT COLLATE "C" NOT NULL,
    row_id BIGINT GENERATED ALWAYS AS IDENTITY,
    webhook_id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    sequence BIGINT,
    event_type TEXT NOT NULL,
    event_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    about JSONB NOT NULL,
    state TEXT DEFAULT 'pending' NOT NULL,
    tries INTEGER DEFAULT '0' NOT NULL,
    status INTEGER,
    error TEXT,
    next_try_at TIMESTAMP WITH TIME ZONE DEFAULT now(),
    last_try_at TIMESTAMP WITH TIME ZONE,
    gives_up_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_webhook_delivery PRIMARY KEY (id),
    CONSTRAINT uq_webhook_delivery_webhook_id_event_id UNIQUE (webhook_id, event_id),
    CONSTRAINT ck_webhook_delivery_state CHECK (state IN ('pending', 'delivered', 'given_up')),
    CONSTRAINT ck_webhook_delivery_ended CHECK ((state = 'pending') = (ended_at IS NULL)),
    CONSTRAINT ck_webhook_delivery_next_try CHECK ((state = 'pending') = (next_try_at IS NOT NULL)),
    CONSTRAINT fk_webhook_delivery_webhook_id FOREIGN KEY(webhook_id) REFERENCES webhook (id) ON DELETE CASCADE
);
COMMENT ON COLUMN webhook_delivery.row_id IS 'the order of delivery';
COMMENT ON COLUMN webhook_delivery.sequence IS 'of the event; NULL: a test, or a record of use';
COMMENT ON COLUMN webhook_delivery.about IS 'the message''s `data`';
COMMENT ON COLUMN webhook_delivery.status IS 'that the receiver answered last';
COMMENT ON COLUMN webhook_delivery.error IS 'why the last try failed';
CREATE INDEX ix_webhook_delivery_created_at ON webhook_delivery (created_at);
CREATE INDEX ix_webhook_delivery_pending ON webhook_delivery (webhook_id, row_id) WHERE state = 'pending';
CREATE INDEX ix_webhook_delivery_webhook_id_id ON webhook_delivery (webhook_id, id);

CREATE TABLE webhook_secret (
    webhook_id TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    tenant_id TEXT COLLATE "C" NOT NULL,
    secret TEXT NOT NULL,
    valid_until TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_webhook_secret PRIMARY KEY (webhook_id, id),
    CONSTRAINT fk_webhook_secret_webhook_id FOREIGN KEY(webhook_id) REFERENCES webhook (id) ON DELETE CASCADE
);
COMMENT ON COLUMN webhook_secret.secret IS 'only workers may read it';
COMMENT ON COLUMN webhook_secret.valid_until IS 'NULL: the present one';
CREATE UNIQUE INDEX ix_webhook_secret_present ON webhook_secret (webhook_id) WHERE valid_until IS NULL;
