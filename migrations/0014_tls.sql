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
