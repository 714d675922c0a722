/** @module Consistency rules of agent mailboxes: their counts and their search index. */
import { queryRule } from '#platform/db/consistency.ts'

export const mailboxCounts = queryRule({
  rule: 'mailbox counts equal a recount',
  sql: `SELECT b.id, message_count AS messages, unread_count AS unread, unread_bytes AS bytes, thread_count AS threads,
      coalesce(m.received, 0) AS received, coalesce(m.unread, 0) AS waiting, coalesce(m.bytes, 0) AS waitingBytes,
      coalesce(t.n, 0) AS conversations
    FROM agent_mailboxes b
    LEFT JOIN (SELECT mailbox_id, sum(email_id IS NULL) AS received,
        sum(email_id IS NULL AND read_at IS NULL) AS unread,
        sum(iif(email_id IS NULL AND read_at IS NULL, size_bytes, 0)) AS bytes
      FROM mailbox_messages GROUP BY 1) m ON m.mailbox_id = b.id
    LEFT JOIN (SELECT mailbox_id, count(*) AS n FROM mailbox_threads GROUP BY 1) t ON t.mailbox_id = b.id
    WHERE b.deleted_at IS NULL AND (messages <> received OR b.unread_count <> waiting
      OR b.unread_bytes <> waitingBytes OR threads <> conversations)`,
  describe: (r) =>
    `mailbox ${r['id']}: recorded ${r['messages']} messages, ${r['unread']} unread of ${r['bytes']} octets, ${r['threads']} threads; counted ${r['received']}, ${r['waiting']} of ${r['waitingBytes']}, ${r['conversations']}`,
})

/** SQL condition: excludes deleted mailboxes, whose rows are deleted batch by batch. */
const IN_ACTIVE_MAILBOX = 'mailbox_id IN (SELECT id FROM agent_mailboxes WHERE deleted_at IS NULL)'

export const conversationCounts = queryRule({
  rule: 'thread and contact counts of mailboxes equal a recount',
  sql: `SELECT 'thread ' || id AS what, message_count AS stored,
        (SELECT count(*) FROM mailbox_messages WHERE thread_id = t.id) AS counted
      FROM mailbox_threads t WHERE ${IN_ACTIVE_MAILBOX} AND stored <> counted
    UNION ALL SELECT 'contact ' || coalesce(c.address, m.address) || ' of mailbox ' || mailbox_id,
        coalesce(c.message_count, 0), coalesce(m.n, 0)
      FROM mailbox_contacts c FULL JOIN (SELECT mailbox_id, from_address AS address, count(*) AS n FROM mailbox_messages
        WHERE email_id IS NULL AND from_address <> '' GROUP BY 1, 2) m USING (mailbox_id, address)
      WHERE ${IN_ACTIVE_MAILBOX} AND c.message_count IS NOT m.n`,
  describe: (r) => `${r['what']}: recorded ${r['stored']} messages, counted ${r['counted']}`,
})

export const messageSearchIndex = queryRule({
  rule: 'the search index contains exactly the mailbox messages',
  // The table itself, not the view without deleted accounts, because messages of deleted accounts are still in the
  // index.
  sql: `SELECT coalesce(m.id, s.id) AS id, m.id IS NULL AS lost
    FROM main.mailbox_messages m FULL JOIN mailbox_search_docsize s ON s.id = m.id WHERE m.id IS NULL OR s.id IS NULL`,
  describe: (r) =>
    r['lost'] === 1
      ? `message ${r['id']} is in the index but does not exist`
      : `message ${r['id']} is not in the index`,
})
