# Makes Heddle's account on a new server. The entrypoint of the image `mariadb` sources this file before the server
# first takes clients. Nothing of it goes to the binary log, since every server of the farm does it for itself.
# The grants are those of `heddle grants 11.4-MariaDB --for essential,clone`.

docker_process_sql --database=mysql <<SQL
SET SESSION sql_log_bin = 0;
CREATE USER 'heddle'@'%' IDENTIFIED BY '$(docker_sql_escape_string_literal "$(</run/secrets/heddle_password)")';
GRANT SLAVE MONITOR, SELECT, SHOW VIEW, READ_ONLY ADMIN, REPLICATION MASTER ADMIN, REPLICATION SLAVE ADMIN, RELOAD, BINLOG ADMIN, PROCESS, CONNECTION ADMIN, BINLOG MONITOR, REPLICATION SLAVE, BINLOG REPLAY ON *.* TO 'heddle'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON \`heddle\`.* TO 'heddle'@'%' WITH GRANT OPTION;
GRANT INSERT, DELETE, CREATE, DROP, ALTER, REFERENCES, TRIGGER, CREATE VIEW, CREATE ROUTINE, EVENT, CREATE TEMPORARY TABLES, SET USER ON *.* TO 'heddle'@'%';
SQL
