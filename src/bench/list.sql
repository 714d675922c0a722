-- Inserts a part of the mail for the list benchmark: emails of one recipient each, without content, events and
-- statistics, with the counters of lists. Parameters are in the temporary table `seed` (one row: first (emails before),
-- emails (of this part), all_emails, addresses (of recipients), domains (of recipients), tags, account_id, domain_id,
-- rare_domain_id, stream_id, from_address, since_ms, until_ms, codes of statuses). Addresses repeat; the share of the
-- n-th domain is proportional to 1/n, as in real mail.
CREATE TEMP TABLE seed_list AS
WITH RECURSIVE numbers (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers LIMIT (SELECT emails FROM seed))
SELECT first + i + 1 AS n, since_ms + CAST((until_ms - since_ms) * ((first + i) * 1.0 / all_emails) AS INTEGER) AS at, (first + i) % 50 = 49 AS bounced,
  (first + i) * 7919 % addresses AS person FROM numbers, seed;

INSERT INTO emails (id, uuid, account_id, domain_id, stream_id, status, sandbox, transactional, from_address, subject, extra, recipient_count, size_bytes,
  delivered_at, created_at, updated_at)
SELECT n, unhex(printf('%012x7%03x%02x', at, n % 4096, 128 + abs(random()) % 64) || hex(randomblob(7))), account_id,
  iif(n % 1000 = 0, rare_domain_id, domain_id), stream_id, iif(bounced, bounced_status, sent_status), 0, 1, from_address,
  printf('Your order %010d', n), printf('{"tags":["tag-%d"]}', n % tags), 1, 0, iif(bounced, NULL, at + 1200), at, at + 1200
FROM seed_list, seed ORDER BY n;

INSERT INTO recipients (id, email_id, kind, address, status, attempts, delivery_started_at, delivered_at, smtp_response, sending_ip)
SELECT n, n, 0, printf('user-%d@d%d.example', person, CAST(pow(domains, ((person + 1) * 2654435761 % 4294967296) / 4294967296.0) AS INTEGER)),
  iif(bounced, bounced_status, sent_status), 1, iif(bounced, NULL, at + 900), iif(bounced, NULL, at + 1200),
  iif(bounced, '550 5.1.1 no such user', '250 2.0.0 taken'), '192.0.2.1'
FROM seed_list, seed ORDER BY n;

INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, 'email:' || iif(bounced, 'bounced', 'sent'), at / 3600000, count(*) FROM seed_list, seed GROUP BY 1, 2, 3
ON CONFLICT DO UPDATE SET value = value + excluded.value;

DROP TABLE seed_list;
