CREATE TABLE `abuse_findings` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`account_id` integer NOT NULL,
	`source` text NOT NULL,
	`reason` text NOT NULL,
	`detail` text,
	`email_id` integer,
	`paused` integer NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `abuse_findings_account` ON `abuse_findings` (`account_id`,`created_at`);--> statement-breakpoint
CREATE INDEX `abuse_findings_age` ON `abuse_findings` (`created_at`);--> statement-breakpoint
CREATE TABLE `pause_notices` (
	`finding_id` integer PRIMARY KEY NOT NULL,
	`account_id` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `resumed_figures` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`hour` integer NOT NULL,
	`delivered` integer NOT NULL,
	`bounced` integer NOT NULL,
	`complained` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `content_watch` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`emails` integer DEFAULT 0 NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `content_cursor` (
	`id` integer PRIMARY KEY NOT NULL,
	`email_id` integer NOT NULL
) STRICT;
--> statement-breakpoint
-- Mail from before the look at content was made is not looked at.
INSERT INTO content_cursor SELECT 1, coalesce(max(id), 0) FROM emails;--> statement-breakpoint
CREATE TABLE `held_accounts` (
	`account_id` integer PRIMARY KEY NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `billing_events` (
	`id` text PRIMARY KEY NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `billing_events_age` ON `billing_events` (`created_at`);--> statement-breakpoint
CREATE TABLE `content_garbage` (
	`store` integer NOT NULL,
	`ref` integer NOT NULL,
	`times` integer NOT NULL,
	PRIMARY KEY(`store`, `ref`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `daily_figures` (
	`account_id` integer NOT NULL,
	`day` integer NOT NULL,
	`domain` text NOT NULL,
	`sent` integer DEFAULT 0 NOT NULL,
	`delivered` integer DEFAULT 0 NOT NULL,
	`bounced` integer DEFAULT 0 NOT NULL,
	`opens` integer DEFAULT 0 NOT NULL,
	`clicks` integer DEFAULT 0 NOT NULL,
	`opened_emails` integer DEFAULT 0 NOT NULL,
	`clicked_emails` integer DEFAULT 0 NOT NULL,
	`complaints` integer DEFAULT 0 NOT NULL,
	`unsubscribes` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`account_id`, `day`, `domain`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `daily_figures_by_sent` ON `daily_figures` (`account_id`,`day`,`sent`) WHERE sent > 0 and domain <> '';--> statement-breakpoint
CREATE TABLE `insights` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`generated_at` integer NOT NULL,
	`period_start` integer NOT NULL,
	`period_end` integer NOT NULL,
	`model` text NOT NULL,
	`input_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`summary` text NOT NULL,
	`findings` text NOT NULL,
	`raw_markdown` text NOT NULL,
	`acknowledged_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `insights_uuid_unique` ON `insights` (`uuid`);--> statement-breakpoint
CREATE INDEX `insights_account` ON `insights` (`account_id`,`generated_at`);--> statement-breakpoint
CREATE TABLE `account_deletions` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`operation_id` integer,
	`step` integer NOT NULL,
	`cursor` integer NOT NULL,
	`rows` integer NOT NULL,
	`due_at` integer NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `erasures` (
	`id` integer PRIMARY KEY NOT NULL,
	`account_id` integer NOT NULL,
	`operation_id` integer NOT NULL,
	`address` text NOT NULL,
	`step` integer NOT NULL,
	`cursor` integer NOT NULL,
	`rows` integer NOT NULL,
	`due_at` integer NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `erasures_address` ON `erasures` (`account_id`,`address`);--> statement-breakpoint
CREATE INDEX `erasures_due` ON `erasures` (`due_at`);--> statement-breakpoint
CREATE TABLE `erasure_emails` (
	`erasure_id` integer NOT NULL,
	`email_id` integer NOT NULL,
	PRIMARY KEY(`erasure_id`, `email_id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `retention_left` (
	`kind` integer NOT NULL,
	`row_id` integer NOT NULL,
	PRIMARY KEY(`kind`, `row_id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `invitations` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`email` text NOT NULL,
	`role` text NOT NULL,
	`token_hash` blob NOT NULL,
	`invited_by` text NOT NULL,
	`expires_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `invitations_uuid_unique` ON `invitations` (`uuid`);--> statement-breakpoint
CREATE UNIQUE INDEX `invitations_token_hash_unique` ON `invitations` (`token_hash`);--> statement-breakpoint
CREATE INDEX `invitations_account` ON `invitations` (`account_id`);--> statement-breakpoint
CREATE TABLE `members` (
	`account_id` integer NOT NULL,
	`user_id` integer NOT NULL,
	`role` text NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `user_id`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `members_user` ON `members` (`user_id`);--> statement-breakpoint
CREATE TABLE `password_resets` (
	`id` integer PRIMARY KEY NOT NULL,
	`user_id` integer NOT NULL,
	`token_hash` blob NOT NULL,
	`expires_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `password_resets_token_hash_unique` ON `password_resets` (`token_hash`);--> statement-breakpoint
CREATE INDEX `password_resets_user` ON `password_resets` (`user_id`);--> statement-breakpoint
CREATE TABLE `sessions` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`user_id` integer NOT NULL,
	`account_id` integer NOT NULL,
	`token_hash` blob NOT NULL,
	`ip_address` text,
	`user_agent` text,
	`last_seen_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `sessions_uuid_unique` ON `sessions` (`uuid`);--> statement-breakpoint
CREATE UNIQUE INDEX `sessions_token_hash_unique` ON `sessions` (`token_hash`);--> statement-breakpoint
CREATE INDEX `sessions_user` ON `sessions` (`user_id`);--> statement-breakpoint
CREATE INDEX `sessions_account` ON `sessions` (`account_id`);--> statement-breakpoint
CREATE INDEX `sessions_expiry` ON `sessions` (`expires_at`);--> statement-breakpoint
CREATE TABLE `users` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`email` text NOT NULL,
	`name` text NOT NULL,
	`password_hash` text,
	`totp_secret` blob,
	`totp_enabled_at` integer,
	`totp_last_step` integer,
	`recovery_codes` text,
	`last_login_at` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `users_uuid_unique` ON `users` (`uuid`);--> statement-breakpoint
CREATE UNIQUE INDEX `users_email_unique` ON `users` (`email`);--> statement-breakpoint
ALTER TABLE `accounts` ADD `parent_id` integer;--> statement-breakpoint
ALTER TABLE `accounts` ADD `disabled_at` integer;--> statement-breakpoint
ALTER TABLE `accounts` ADD `deleted_at` integer;--> statement-breakpoint
ALTER TABLE `accounts` ADD `pause_source` text;--> statement-breakpoint
ALTER TABLE `accounts` ADD `pause_reason` text;--> statement-breakpoint
ALTER TABLE `accounts` ADD `resumed_at` integer;--> statement-breakpoint
ALTER TABLE `accounts` ADD `quota_held` integer DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE `accounts` ADD `stripe_customer_id` text;--> statement-breakpoint
ALTER TABLE `accounts` ADD `stripe_subscription_id` text;--> statement-breakpoint
ALTER TABLE `accounts` ADD `subscription_status` text;--> statement-breakpoint
ALTER TABLE `accounts` ADD `billing_email` text;--> statement-breakpoint
ALTER TABLE `accounts` ADD `trial_ends_at` integer;--> statement-breakpoint
ALTER TABLE `accounts` ADD `exported_at` integer;--> statement-breakpoint
CREATE TABLE `usage_of_sub_accounts` (
	`account_id` integer NOT NULL,
	`month` integer NOT NULL,
	`recipients` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`account_id`, `month`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `api_keys_account` ON `api_keys` (`account_id`);--> statement-breakpoint
CREATE INDEX `broadcasts_account` ON `broadcasts` (`account_id`);--> statement-breakpoint
CREATE INDEX `domains_account` ON `domains` (`account_id`);--> statement-breakpoint
CREATE INDEX `received_reports_account` ON `received_reports` (`account_id`);--> statement-breakpoint
CREATE INDEX `streams_account` ON `streams` (`account_id`);--> statement-breakpoint
CREATE INDEX `accounts_parent` ON `accounts` (`parent_id`) WHERE parent_id is not null;--> statement-breakpoint
CREATE INDEX `accounts_deleted` ON `accounts` (`id`) WHERE deleted_at is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_customer` ON `accounts` (`stripe_customer_id`) WHERE stripe_customer_id is not null;--> statement-breakpoint
ALTER TABLE `audit_logs` ADD `salt` blob;--> statement-breakpoint
ALTER TABLE `audit_logs` ADD `digest` blob;--> statement-breakpoint
ALTER TABLE `audit_logs` ADD `hash` blob;--> statement-breakpoint
CREATE INDEX `audit_logs_action` ON `audit_logs` (`account_id`,`action`);--> statement-breakpoint
CREATE INDEX `audit_logs_actor` ON `audit_logs` (`account_id`,`actor_id`);--> statement-breakpoint
CREATE INDEX `audit_logs_resource` ON `audit_logs` (`account_id`,`resource_id`) WHERE resource_id is not null;--> statement-breakpoint
CREATE TABLE `audit_chain` (
	`id` integer PRIMARY KEY NOT NULL,
	`anchor_id` integer NOT NULL,
	`anchor_hash` blob NOT NULL,
	`head_id` integer NOT NULL,
	`head_hash` blob NOT NULL,
	`is_complete` integer NOT NULL
) STRICT;
--> statement-breakpoint
-- The entries that there are are chained when the database is opened: audit-logs/chain.ts.
INSERT INTO audit_chain VALUES (1, 0, zeroblob(32), 0, zeroblob(32), 0);--> statement-breakpoint
INSERT INTO `daily_figures` (`account_id`, `day`, `domain`, `sent`, `delivered`, `bounced`, `opens`, `clicks`, `opened_emails`, `clicked_emails`, `complaints`, `unsubscribes`)
	SELECT `account_id`, `at` / 86400000, `domain`, sum(`field` = 1), sum(`field` = 2), sum(`field` = 3), sum(`field` = 4), sum(`field` = 5), sum(`field` = 6), sum(`field` = 7), sum(`field` = 8), sum(`field` = 9) FROM (
		SELECT `account_id`, `created_at` AS `at`, substr(`address`, length(rtrim(`address`, replace(`address`, '@', ''))) + 1) AS `domain`, 1 AS `field` FROM `emails` JOIN `recipients` ON `email_id` = `emails`.`id`
			WHERE `sandbox` = 0 AND `recipients`.`status` NOT IN (6, 7)
		UNION ALL SELECT `account_id`, `recipients`.`delivered_at`, substr(`address`, length(rtrim(`address`, replace(`address`, '@', ''))) + 1), 2 FROM `emails` JOIN `recipients` ON `email_id` = `emails`.`id`
			WHERE `sandbox` = 0 AND `recipients`.`delivered_at` IS NOT NULL
		UNION ALL SELECT `events`.`account_id`, `at`, substr(`address`, length(rtrim(`address`, replace(`address`, '@', ''))) + 1), CASE `type` WHEN 6 THEN 3 WHEN 9 THEN 4 WHEN 10 THEN 5 ELSE 9 END
			FROM `emails` JOIN `events` ON `events`.`email_id` = `emails`.`id`
			LEFT JOIN `recipients` ON `recipients`.`id` = `recipient_id` AND `recipients`.`email_id` = `emails`.`id` WHERE `sandbox` = 0 AND `type` IN (6, 9, 10, 12)
		UNION ALL SELECT `complaints`.`account_id`, `complaints`.`created_at`, substr(`address`, length(rtrim(`address`, replace(`address`, '@', ''))) + 1), 8 FROM `complaints` JOIN `emails` ON `emails`.`id` = `complaints`.`email_id`
			LEFT JOIN `recipients` ON `recipients`.`id` = `recipient_id` WHERE `sandbox` = 0 AND `feedback_type` <> 'not-spam'
		UNION ALL SELECT `account_id`, min(`at`), `domain`, CASE `type` WHEN 9 THEN 6 ELSE 7 END FROM (
			SELECT `events`.`account_id`, `events`.`email_id`, `at`, `type`, substr(`address`, length(rtrim(`address`, replace(`address`, '@', ''))) + 1) AS `domain` FROM `emails` JOIN `events` ON `events`.`email_id` = `emails`.`id`
				JOIN `recipients` ON `recipients`.`id` = `recipient_id` AND `recipients`.`email_id` = `emails`.`id` WHERE `sandbox` = 0 AND `type` IN (9, 10))
			GROUP BY `email_id`, `type`, `domain`
	) WHERE `domain` IS NOT NULL GROUP BY 1, 2, 3;--> statement-breakpoint
INSERT INTO `daily_figures` (`account_id`, `day`, `domain`, `sent`, `delivered`, `bounced`, `opens`, `clicks`, `opened_emails`, `clicked_emails`, `complaints`, `unsubscribes`)
	SELECT `account_id`, `at` / 86400000, '', sum(`field` = 1), sum(`field` = 2), sum(`field` = 3), sum(`field` = 4), sum(`field` = 5), sum(`field` = 6), sum(`field` = 7), sum(`field` = 8), sum(`field` = 9) FROM (
		SELECT `account_id`, `created_at` AS `at`, '' AS `domain`, 1 AS `field` FROM `emails` JOIN `recipients` ON `email_id` = `emails`.`id`
			WHERE `sandbox` = 0 AND `recipients`.`status` NOT IN (6, 7)
		UNION ALL SELECT `account_id`, `recipients`.`delivered_at`, '', 2 FROM `emails` JOIN `recipients` ON `email_id` = `emails`.`id`
			WHERE `sandbox` = 0 AND `recipients`.`delivered_at` IS NOT NULL
		UNION ALL SELECT `events`.`account_id`, `at`, '', CASE `type` WHEN 6 THEN 3 WHEN 9 THEN 4 WHEN 10 THEN 5 ELSE 9 END
			FROM `emails` JOIN `events` ON `events`.`email_id` = `emails`.`id`
			LEFT JOIN `recipients` ON `recipients`.`id` = `recipient_id` AND `recipients`.`email_id` = `emails`.`id` WHERE `sandbox` = 0 AND `type` IN (6, 9, 10, 12)
		UNION ALL SELECT `complaints`.`account_id`, `complaints`.`created_at`, '', 8 FROM `complaints` JOIN `emails` ON `emails`.`id` = `complaints`.`email_id`
			LEFT JOIN `recipients` ON `recipients`.`id` = `recipient_id` WHERE `sandbox` = 0 AND `feedback_type` <> 'not-spam'
		UNION ALL SELECT `events`.`account_id`, min(`at`), '', CASE `type` WHEN 9 THEN 6 ELSE 7 END FROM `emails` JOIN `events` ON `events`.`email_id` = `emails`.`id`
			WHERE `sandbox` = 0 AND `type` IN (9, 10) GROUP BY `events`.`email_id`, `type`
	) GROUP BY 1, 2;--> statement-breakpoint
INSERT INTO `daily_figures` (`account_id`, `day`, `domain`, `sent`, `delivered`, `bounced`, `opens`, `clicks`, `opened_emails`, `clicked_emails`, `complaints`, `unsubscribes`)
	SELECT `account_id`, -(strftime('%Y', `day` * 86400, 'unixepoch') * 12 + strftime('%m', `day` * 86400, 'unixepoch') - 1), `domain`, sum(`sent`), sum(`delivered`), sum(`bounced`), sum(`opens`), sum(`clicks`), sum(`opened_emails`), sum(`clicked_emails`), sum(`complaints`), sum(`unsubscribes`)
	FROM `daily_figures` WHERE `domain` <> '' GROUP BY 1, 2, 3;
