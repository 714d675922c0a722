ALTER TABLE `domains` ADD `records_lost_at` integer;--> statement-breakpoint
ALTER TABLE `domains` ADD `loss_notice_due_at` integer;--> statement-breakpoint
ALTER TABLE `domains` ADD `loss_notice_sent_at` integer;--> statement-breakpoint
ALTER TABLE `domains` ADD `loss_notice` text;--> statement-breakpoint
-- Domains that were verified and lost it must not be sandboxes: the audit log knows them.
UPDATE `domains` SET `records_lost_at` = (
  SELECT max(`created_at`) FROM `audit_logs` WHERE `audit_logs`.`account_id` = `domains`.`account_id` AND `action` = 'domain.unverified'
    AND `resource_id` = lower(substr(hex(`domains`.`uuid`), 1, 8) || '-' || substr(hex(`domains`.`uuid`), 9, 4) || '-' || substr(hex(`domains`.`uuid`), 13, 4) || '-' || substr(hex(`domains`.`uuid`), 17, 4) || '-' || substr(hex(`domains`.`uuid`), 21))
) WHERE `verified_at` IS NULL AND `deleted_at` IS NULL;
--> statement-breakpoint
-- Those that lost it less than 72 hours ago send for the rest of that time.
UPDATE `domains` SET `verified_at` = `records_lost_at` WHERE `records_lost_at` > (unixepoch() - 259200) * 1000
  AND NOT EXISTS (SELECT 1 FROM `domains` AS `other` WHERE `other`.`domain` = `domains`.`domain` AND `other`.`verified_at` IS NOT NULL AND `other`.`deleted_at` IS NULL);
--> statement-breakpoint
-- The mail of the others is refused from now on, no longer captured. The first start mails the owners of all.
UPDATE `domains` SET `loss_notice_due_at` = 0 WHERE `records_lost_at` IS NOT NULL;
--> statement-breakpoint
CREATE INDEX `domains_loss_notices` ON `domains` (`loss_notice_due_at`) WHERE loss_notice_due_at is not null;
