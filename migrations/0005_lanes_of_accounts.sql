-- A lane is an account's: open recipients of lanes that all accounts shared get the account's row id before their domain.
UPDATE `recipients` SET `lane` = (SELECT `account_id` FROM `emails` WHERE `emails`.`id` = `email_id`) || ':' || `lane`
	WHERE `next_at` IS NOT NULL AND `lane` NOT LIKE 'bulk:%';
