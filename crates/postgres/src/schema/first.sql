-- All times are milliseconds since 1970, but for those of desks, which are the database's own.
-- Texts are compared by their bytes.

-- Numbers that rise. A moment is a batch of writes; what becomes ready in it is ranked by it.
CREATE SEQUENCE task_key;
CREATE SEQUENCE activity_key;
CREATE SEQUENCE desk_number;
CREATE SEQUENCE moment;

-- Open handles: processes. One is alive until its time by the database's clock; what is written in
-- its name is written only before that. As nobody can be heard while the server is down, each has its
-- lease anew from when that has started. Its row goes when what it held was given to others.
CREATE TABLE desk (
    n bigint PRIMARY KEY,
    until timestamptz NOT NULL,
    lease interval NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    process text NOT NULL
) WITH (fillfactor = 50);

-- How many batches each writer of a desk has committed. A writer that lost the answer to a commit
-- finds out here; and others see here that something was written.
CREATE TABLE writer (
    desk bigint NOT NULL,
    lane smallint NOT NULL,
    batch bigint NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (desk, lane)
) WITH (fillfactor = 50);

CREATE TABLE task (
    key bigint PRIMARY KEY,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    ended bigint,
    expires bigint,
    wake bigint,
    parent bigint,
    parent_op bigint,
    desk bigint,
    bound bigint,
    rank bigint NOT NULL,
    epoch bigint NOT NULL,
    deaths bigint NOT NULL,
    letters bigint NOT NULL,
    version bigint NOT NULL,
    status smallint NOT NULL,
    traces smallint NOT NULL,
    tells boolean NOT NULL,
    id text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    dedup text COLLATE "C",
    tags text,
    about bytea NOT NULL,
    view bytea NOT NULL,
    outcome bytea
) WITH (fillfactor = 90);

COMMENT ON COLUMN task.desk IS
    'where it lies: NULL is parked, -1 is halted or set aside, 0 is the ready pile, above is that desk';
COMMENT ON COLUMN task.rank IS 'its place on the ready pile';
COMMENT ON COLUMN task.status IS
    '0 queued, 1 running, 2 waiting, 3 input required, 4 retrying, 5 suspended, 6 stuck, 7 completed, 8 failed, 9 cancelled';
COMMENT ON COLUMN task.version IS 'of its tool; -1 as long as it has none';
COMMENT ON COLUMN task.owner IS 'its principal; empty for nobody';
COMMENT ON COLUMN task.letters IS 'the number of its last message';
COMMENT ON COLUMN task.traces IS
    'what there may be of it elsewhere: 1 questions, 2 activities, 4 watches';
COMMENT ON COLUMN task.tells IS 'its parent wants to know of its end';
COMMENT ON COLUMN task.dedup IS 'one task of an owner has this key';
COMMENT ON COLUMN task.tags IS 'a JSON object; also in the table tag';

CREATE UNIQUE INDEX task_id ON task (id);
CREATE INDEX task_desk ON task (desk) WHERE desk > 0;
CREATE INDEX task_ready ON task (tool, version, owner, rank) WHERE desk = 0;
CREATE INDEX task_wake ON task (wake, key) WHERE wake IS NOT NULL AND desk IS NULL;
CREATE INDEX task_expires ON task (expires, key) WHERE expires IS NOT NULL;
CREATE INDEX task_parent ON task (parent, key) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX task_dedup ON task (owner, dedup) WHERE dedup IS NOT NULL;
CREATE INDEX task_owner ON task (owner, status, key);
CREATE INDEX task_tool ON task (tool, status, key);

CREATE TABLE tag (
    name text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    task bigint NOT NULL,
    PRIMARY KEY (name, value, task)
);
CREATE INDEX tag_task ON tag (task);

-- The history of each task, from 0.
CREATE TABLE event (
    task bigint NOT NULL,
    seq bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (task, seq)
);

-- Messages to tasks. A notice says that a value changed, and is there once.
CREATE TABLE inbox (
    task bigint NOT NULL,
    seq bigint NOT NULL,
    op bigint,
    notice boolean NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (task, seq)
);

-- Messages to tasks that do not exist yet. The sender is empty for an operator.
CREATE TABLE kept (
    n bigint PRIMARY KEY,
    until bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    sender text COLLATE "C" NOT NULL,
    body bytea NOT NULL
);
CREATE INDEX kept_id ON kept (id);
CREATE INDEX kept_until ON kept (until);

-- Open questions, in their order.
CREATE TABLE question (
    task bigint NOT NULL,
    n bigint NOT NULL,
    op bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (task, n)
);

CREATE TABLE activity (
    key bigint PRIMARY KEY,
    task bigint NOT NULL,
    op bigint NOT NULL,
    desk bigint,
    rank bigint,
    due bigint,
    epoch bigint NOT NULL,
    attempt bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    body bytea NOT NULL
);

COMMENT ON COLUMN activity.desk IS
    '0 while nobody runs it (with a rank it is in the queue, with a due it waits for its next attempt), NULL if somebody outside does, above is that desk';
COMMENT ON COLUMN activity.due IS 'the time of its next attempt, or the end of its heartbeat';

CREATE UNIQUE INDEX activity_token ON activity (token);
CREATE UNIQUE INDEX activity_op ON activity (task, op);
CREATE INDEX activity_queue ON activity (name, rank) WHERE rank IS NOT NULL;
CREATE INDEX activity_due ON activity (due, key) WHERE due IS NOT NULL;
CREATE INDEX activity_desk ON activity (desk) WHERE desk > 0;

CREATE TABLE state (
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    value bytea,
    PRIMARY KEY (scope, key)
);

-- Tasks that are told when a value changes.
CREATE TABLE watch (
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    task bigint NOT NULL,
    PRIMARY KEY (scope, key, task)
);
CREATE INDEX watch_task ON watch (task);

CREATE TABLE session (
    id text COLLATE "C" PRIMARY KEY,
    expires bigint NOT NULL,
    body bytea NOT NULL
);
CREATE INDEX session_expires ON session (expires, id);

-- The state of a session goes with it, by whatever way.
CREATE FUNCTION session_over() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM state WHERE scope = 'session/' || OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER session_over AFTER DELETE ON session
    FOR EACH ROW EXECUTE FUNCTION session_over();

CREATE TABLE notice (
    n bigint PRIMARY KEY,
    until bigint NOT NULL,
    body bytea NOT NULL
);
CREATE INDEX notice_until ON notice (until);

-- The number of the last notice. Locked until the notice is there for all: no number is seen before
-- a lower one.
CREATE TABLE counter (notice bigint NOT NULL);
INSERT INTO counter VALUES (0);
