-- The database and its owner, who runs `gpulease-server migrate`. Once, by an administrator of the server, who may be
-- a superuser or, as on managed PostgreSQL, a role with CREATEROLE and CREATEDB:
--   OWNER_PASSWORD=… psql "$ADMIN_URL" --file=migrations/owner.sql
\set ON_ERROR_STOP on
\getenv owner_password OWNER_PASSWORD
CREATE ROLE gpulease_owner LOGIN CREATEROLE PASSWORD :'owner_password';
-- whoever gives a database to a role must be able to become that role
GRANT gpulease_owner TO CURRENT_USER;
CREATE DATABASE gpulease OWNER gpulease_owner;
