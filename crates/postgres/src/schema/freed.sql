-- A key that was freed stays in its row until another has it: who had asked for it before finds the task by that.
-- Processes of the version before take it for one that is in use, and free it by emptying dedup.
ALTER TABLE task ADD COLUMN freed bigint;

COMMENT ON COLUMN task.freed IS
    'since when others may have its dedup key, in microseconds since 1970 by the database''s clock';
