-- Keys that were freed. Others may have them, and who had asked before finds the task by them. They are not in
-- the rows of their tasks, as processes of the version before would take them for keys that are in use.
-- One goes when another task has the key; but the version before leaves it then, so who has the key counts.
-- And it goes with its task, whoever removes that.
CREATE TABLE freed (
    owner text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    task bigint NOT NULL REFERENCES task ON DELETE CASCADE,
    at bigint NOT NULL,
    PRIMARY KEY (owner, key)
);
CREATE INDEX freed_task ON freed (task);

COMMENT ON COLUMN freed.at IS
    'since when others may have the key, in microseconds since 1970 by the database''s clock';
