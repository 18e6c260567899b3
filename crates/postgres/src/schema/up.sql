-- Since when the server writes: one row, made by the first to come when there is none. It is not logged, so that
-- it is gone after a crash of the server, and on a standby that was promoted. Nobody could be heard until then.
CREATE UNLOGGED TABLE up (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    since timestamptz NOT NULL
);

COMMENT ON TABLE up IS 'since when the server writes, unless it was shut down in good order since';
