DROP TABLE teams;
