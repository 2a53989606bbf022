-- Accounts for the compose file, with passwords for playing. Anywhere else, accounts come from whoever keeps secrets.
create role migrator login password 'migrator' in role messenger_migrate;
alter role migrator set role messenger_migrate;
create role worker login password 'worker' in role messenger_worker;
create role reader login password 'reader' in role messenger_readonly;
create role operator login password 'operator' in role messenger_operator;
