CREATE TABLE `provider_pairs` (
	`provider` text NOT NULL,
	`source` text NOT NULL,
	`factor` real NOT NULL,
	`learned_per_minute` real,
	`rule` text,
	`reason` text,
	`suspended_at` integer,
	`suspended_until` integer,
	`duration_ms` integer NOT NULL,
	`failures` integer NOT NULL,
	PRIMARY KEY(`provider`, `source`)
) STRICT;
--> statement-breakpoint
CREATE TABLE `queue_rules` (
	`id` integer PRIMARY KEY NOT NULL,
	`kind` text NOT NULL,
	`account_id` integer,
	`domain` text,
	`provider` text,
	`email_id` integer,
	`target` text,
	`reason` text NOT NULL,
	`created_by` text NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `queue_rules_domain` ON `queue_rules` (`domain`);--> statement-breakpoint
CREATE INDEX `queue_rules_account` ON `queue_rules` (`account_id`);--> statement-breakpoint
CREATE INDEX `queue_rules_email` ON `queue_rules` (`email_id`);--> statement-breakpoint
CREATE INDEX `queue_rules_provider` ON `queue_rules` (`provider`);--> statement-breakpoint
CREATE TABLE `warm_ups` (
	`provider` text NOT NULL,
	`source` text NOT NULL,
	`day` integer NOT NULL,
	`budget` integer,
	`tried` integer NOT NULL,
	`accepted` integer NOT NULL,
	`failed` integer NOT NULL,
	`is_blocked` integer NOT NULL,
	PRIMARY KEY(`provider`, `source`)
) STRICT;
--> statement-breakpoint
CREATE TABLE `attempts` (
	`id` integer PRIMARY KEY NOT NULL,
	`email_id` integer NOT NULL,
	`recipient_id` integer NOT NULL,
	`number` integer NOT NULL,
	`type` integer NOT NULL,
	`at` integer NOT NULL,
	`data` text NOT NULL,
	`dialogue` text
) STRICT;
--> statement-breakpoint
CREATE INDEX `attempts_recipient` ON `attempts` (`email_id`,`recipient_id`);--> statement-breakpoint
CREATE TABLE `mta_sts_policies` (
	`domain` text PRIMARY KEY NOT NULL,
	`policy_id` text NOT NULL,
	`policy` text NOT NULL,
	`fetched_at` integer NOT NULL,
	`expires_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `mta_sts_policies_expiry` ON `mta_sts_policies` (`expires_at`);--> statement-breakpoint
CREATE TABLE `tls_session_counts` (
	`day` integer NOT NULL,
	`domain` text NOT NULL,
	`policy` text NOT NULL,
	`failure` text NOT NULL,
	`sessions` integer NOT NULL,
	PRIMARY KEY(`day`, `domain`, `policy`, `failure`)
) STRICT;
--> statement-breakpoint
ALTER TABLE `accounts` ADD `events_read_at` integer;--> statement-breakpoint
ALTER TABLE `recipients` ADD `wait_noted_at` integer;--> statement-breakpoint
ALTER TABLE `recipients` ADD `expires_at` integer;--> statement-breakpoint
CREATE INDEX `recipients_expiring` ON `recipients` (`expires_at`) WHERE expires_at is not null and next_at is not null;--> statement-breakpoint
ALTER TABLE `domains` ADD `ed25519_public_key` text;--> statement-breakpoint
ALTER TABLE `domains` ADD `ed25519_private_key` blob;--> statement-breakpoint
ALTER TABLE `domains` ADD `ed25519_verified` integer DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE `streams` ADD `expires_in` integer;--> statement-breakpoint
ALTER TABLE `streams` ADD `priority` integer DEFAULT 0 NOT NULL;