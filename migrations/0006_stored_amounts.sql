CREATE TABLE `stored_amounts` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`contacts` integer DEFAULT 0 NOT NULL,
	`bytes` integer DEFAULT 0 NOT NULL
) STRICT;
--> statement-breakpoint
INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`)
SELECT account_id, count(*), sum(200 + coalesce(octet_length(email), 0) + coalesce(octet_length(metadata), 0)) FROM `contacts` WHERE true GROUP BY account_id
ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
--> statement-breakpoint
CREATE TRIGGER `contacts_stored` AFTER INSERT ON `contacts` BEGIN
	INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`) VALUES (new.account_id, 1, 200 + coalesce(octet_length(new.email), 0) + coalesce(octet_length(new.metadata), 0))
	ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
END;
--> statement-breakpoint
CREATE TRIGGER `contacts_removed` AFTER DELETE ON `contacts` BEGIN
	UPDATE `stored_amounts` SET `contacts` = `contacts` - 1, `bytes` = `bytes` - (200 + coalesce(octet_length(old.email), 0) + coalesce(octet_length(old.metadata), 0)) WHERE `account_id` = old.account_id;
END;
--> statement-breakpoint
CREATE TRIGGER `contacts_resized` AFTER UPDATE OF email, metadata ON `contacts` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (200 + coalesce(octet_length(old.email), 0) + coalesce(octet_length(old.metadata), 0)) + (200 + coalesce(octet_length(new.email), 0) + coalesce(octet_length(new.metadata), 0)) WHERE `account_id` = new.account_id;
END;
--> statement-breakpoint
INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`)
SELECT account_id, 0, sum(coalesce(octet_length(subject), 0) + coalesce(octet_length(html_body), 0) + coalesce(octet_length(text_body), 0)) FROM `templates` WHERE true GROUP BY account_id
ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
--> statement-breakpoint
CREATE TRIGGER `templates_stored` AFTER INSERT ON `templates` BEGIN
	INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`) VALUES (new.account_id, 0, coalesce(octet_length(new.subject), 0) + coalesce(octet_length(new.html_body), 0) + coalesce(octet_length(new.text_body), 0))
	ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
END;
--> statement-breakpoint
CREATE TRIGGER `templates_removed` AFTER DELETE ON `templates` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (coalesce(octet_length(old.subject), 0) + coalesce(octet_length(old.html_body), 0) + coalesce(octet_length(old.text_body), 0)) WHERE `account_id` = old.account_id;
END;
--> statement-breakpoint
CREATE TRIGGER `templates_resized` AFTER UPDATE OF subject, html_body, text_body ON `templates` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (coalesce(octet_length(old.subject), 0) + coalesce(octet_length(old.html_body), 0) + coalesce(octet_length(old.text_body), 0)) + (coalesce(octet_length(new.subject), 0) + coalesce(octet_length(new.html_body), 0) + coalesce(octet_length(new.text_body), 0)) WHERE `account_id` = new.account_id;
END;
--> statement-breakpoint
INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`)
SELECT account_id, 0, sum(coalesce(octet_length(subject), 0) + coalesce(octet_length(html_body), 0) + coalesce(octet_length(text_body), 0) + coalesce(octet_length(template_data), 0)) FROM `newsletters` WHERE true GROUP BY account_id
ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
--> statement-breakpoint
CREATE TRIGGER `newsletters_stored` AFTER INSERT ON `newsletters` BEGIN
	INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`) VALUES (new.account_id, 0, coalesce(octet_length(new.subject), 0) + coalesce(octet_length(new.html_body), 0) + coalesce(octet_length(new.text_body), 0) + coalesce(octet_length(new.template_data), 0))
	ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
END;
--> statement-breakpoint
CREATE TRIGGER `newsletters_removed` AFTER DELETE ON `newsletters` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (coalesce(octet_length(old.subject), 0) + coalesce(octet_length(old.html_body), 0) + coalesce(octet_length(old.text_body), 0) + coalesce(octet_length(old.template_data), 0)) WHERE `account_id` = old.account_id;
END;
--> statement-breakpoint
CREATE TRIGGER `newsletters_resized` AFTER UPDATE OF subject, html_body, text_body, template_data ON `newsletters` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (coalesce(octet_length(old.subject), 0) + coalesce(octet_length(old.html_body), 0) + coalesce(octet_length(old.text_body), 0) + coalesce(octet_length(old.template_data), 0)) + (coalesce(octet_length(new.subject), 0) + coalesce(octet_length(new.html_body), 0) + coalesce(octet_length(new.text_body), 0) + coalesce(octet_length(new.template_data), 0)) WHERE `account_id` = new.account_id;
END;
--> statement-breakpoint
INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`)
SELECT account_id, 0, sum(200 + coalesce(octet_length(reason), 0)) FROM `suppressions` WHERE true GROUP BY account_id
ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
--> statement-breakpoint
CREATE TRIGGER `suppressions_stored` AFTER INSERT ON `suppressions` BEGIN
	INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`) VALUES (new.account_id, 0, 200 + coalesce(octet_length(new.reason), 0))
	ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
END;
--> statement-breakpoint
CREATE TRIGGER `suppressions_removed` AFTER DELETE ON `suppressions` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (200 + coalesce(octet_length(old.reason), 0)) WHERE `account_id` = old.account_id;
END;
--> statement-breakpoint
CREATE TRIGGER `suppressions_resized` AFTER UPDATE OF reason ON `suppressions` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (200 + coalesce(octet_length(old.reason), 0)) + (200 + coalesce(octet_length(new.reason), 0)) WHERE `account_id` = new.account_id;
END;
