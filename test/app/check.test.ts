import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { CONSISTENCY_RULES, checkConsistency } from '#app/cli/check.ts'
import { randomBytes } from '#platform/ids.ts'
import { flipBit } from '#test/support/bit-flip.ts'
import { createClient, createDataFolder, type DataFolder, runTassis, setUpAccount, startServing } from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

interface Result {
  readonly ok: boolean
  readonly findings: readonly { readonly rule: string; readonly differences: readonly string[] }[]
}

let intact: DataFolder

// Three emails wait, because nothing delivers them. Each test copies this data.
beforeAll(async () => {
  intact = createDataFolder()
  await setUpAccount(intact.settings)
  for (const to of ['bob@receiver.test', 'carl@receiver.test', 'dora@receiver.test'])
    await runTassis(['send', '--from', 'ada@sender.test', '--to', to, '--no-follow'], intact.settings)
  // A search indexes the emails it may find.
  await runTassis(['emails', 'list', '--to', 'bob@receiver.test'], intact.settings)
})

afterAll(() => intact[Symbol.dispose]())

/** The rules that do not hold in a copy of the intact data that `sql` has changed. */
async function findBroken(sql: string): Promise<string[]> {
  using data = createDataFolder()
  cpSync(intact.path, data.path, { recursive: true })
  const db = new Database(join(data.path, 'tassis.db'))
  db.run('PRAGMA foreign_keys = OFF')
  db.run(sql)
  db.close()
  const { stdout } = await runTassis(['check', '--json'], data.settings)
  const { findings } = JSON.parse(stdout) as Result
  return findings.filter(({ differences }) => differences.length > 0).map(({ rule }) => rule)
}

test('check reports the value of a wrong counter and the actual count', async () => {
  using data = createDataFolder()
  cpSync(intact.path, data.path, { recursive: true })
  const db = new Database(join(data.path, 'tassis.db'))
  db.run("UPDATE counters SET value = value + 1 WHERE metric = 'email:queued'")
  db.close()
  const { exitCode, stdout } = await runTassis(['check'], data.settings)
  expect(exitCode).toBe(1)
  expect(stdout).toMatch(
    /\nWRONG {2}the counters of emails by status and hour equal a recount\n {9}account 1, email:queued, hour .*: the counter is \d+, the recount \d+\n/,
  )
  expect(stdout.trimEnd()).toEndWith('1 rule does not hold.')
})

// Proves: storage-17
test('check --content names content with a flipped bit and the email that needs it; check alone does not read it', async () => {
  using data = createDataFolder()
  const { key } = await setUpAccount(data.settings)
  const [image, file] = [Buffer.from(randomBytes(50_000)), Buffer.from(randomBytes(400_000))]
  const ids: string[] = []
  {
    await using service = await startServing({ ...data.settings, TASSIS_LOG_LEVEL: 'silent' })
    for (const content of [image, file]) {
      const attachment = { filename: 'a.jpg', content_type: 'image/jpeg', content: content.toString('base64') }
      const mail = { from: 'ada@sender.test', to: 'bob@receiver.test', subject: 'x', text_body: 'Hello.' }
      const client = createClient(service.url, key)
      ids.push((await client('POST', '/v1/emails', { ...mail, attachments: [attachment] })).body.data.id)
    }
    expect((await runTassis(['check', '--content'], data.settings)).exitCode).toBe(0)
    // An end in order empties the write-ahead log, whose frames have checksums of their own.
    service.signal('SIGTERM')
    await service.exited
  }
  const [, path = ''] = [image, file].map((content) => flipBit(join(data.path, 'content'), content.subarray(20_000)))
  expect((await runTassis(['check'], data.settings)).exitCode).toBe(0)
  const { exitCode, stdout } = await runTassis(['check', '--content', '--json'], data.settings)
  const { findings } = JSON.parse(stdout) as Result
  const month = new Date().toISOString().slice(0, 7)
  expect([exitCode, findings.filter(({ differences }) => differences.length > 0)]).toEqual([
    1,
    [
      {
        rule: 'all stored content is as it was stored',
        differences: [
          `blob 2 in content/${month}.db is damaged: needed by emails ${ids[0]}`,
          `${path.slice(data.path.length + 1)} is damaged: needed by emails ${ids[1]}`,
          expect.stringContaining('docs/backup.md says how to mend it'),
        ],
      },
    ],
  ])
})

const CORRUPTIONS: readonly (readonly [rule: string, sql: string])[] = [
  ['the counters of events by type and hour equal a recount', "DELETE FROM counters WHERE metric = 'event:queued'"],
  [
    'the events of an account are numbered from 1 without a gap, except where the data were restored',
    'UPDATE event_sequences SET last_seq = last_seq + 1',
  ],
  [
    'the counter of suppressions equals a recount',
    "INSERT INTO counters (account_id, metric, hour, value) VALUES (1, 'suppressions', 0, 1)",
  ],
  [
    'the counters of suppressions by reason equal a recount',
    `INSERT INTO suppressions (uuid, account_id, address, covers, reason, created_at) VALUES (x'00', 1, 'bob@r.test', 0, '50 % | more', 1);
     INSERT INTO counters (account_id, metric, hour, value) VALUES (1, 'suppressions', 0, 1)`,
  ],
  [
    'the quota used by sub-accounts is at least the sum of their usage',
    `INSERT INTO accounts (uuid, name, email, plan, parent_id, created_at, updated_at) VALUES (x'00', 'Sub', 'a@b.test', 'free', 1, 1, 1);
     INSERT INTO usage (account_id, month, recipients) VALUES (2, 24314, 5)`,
  ],
  ['the audit log is unchanged', "UPDATE audit_logs SET action = 'account.made' WHERE id = 1"],
  [
    'the counters of contacts by list and status equal a recount',
    `INSERT INTO contacts (uuid, account_id, list_id, address_key, status, subscribed_at, created_at) VALUES (x'00', 1, 1, 'a@b.test', 1, 1, 1)`,
  ],
  [
    'no active contact has an open confirmation, and no pending contact was ever active',
    `INSERT INTO contacts (uuid, account_id, list_id, address_key, status, subscribed_at, created_at) VALUES (x'00', 1, 1, 'a@b.test', 0, 1, 1);
     INSERT INTO counters (account_id, metric, hour, value) VALUES (1, 'contacts:1:active', 0, 1)`,
  ],
  [
    'complaint counters by type and hour equal a recount',
    "INSERT INTO complaints (account_id, email_id, feedback_type, created_at) VALUES (1, 1, 'abuse', 1)",
  ],
  [
    'every complaint of a recipient has exactly one event',
    "INSERT INTO complaints (account_id, email_id, recipient_id, feedback_type, created_at) VALUES (1, 1, 1, 'abuse', 1)",
  ],
  [
    'mailbox counts equal a recount',
    `INSERT INTO agent_mailboxes (uuid, account_id, domain_id, local_part, domain, unread_count, created_at, updated_at)
     VALUES (x'00', 1, 1, 'a', 'sender.test', 1, 1, 1)`,
  ],
  [
    'thread and contact counts of mailboxes equal a recount',
    `INSERT INTO agent_mailboxes (uuid, account_id, domain_id, local_part, domain, created_at, updated_at)
     VALUES (x'00', 1, 1, 'a', 'sender.test', 1, 1);
     INSERT INTO mailbox_contacts (mailbox_id, address, message_count, last_message_at) VALUES (1, 'a@b.test', 1, 1)`,
  ],
  [
    'every email up to the last indexed one is in the search index, and nothing else is',
    'DELETE FROM email_search WHERE rowid = 1',
  ],
  [
    'the search index contains exactly the mailbox messages',
    "INSERT INTO mailbox_search (rowid, mailbox, subject, sender, body) VALUES (7, 'm1', '', '', '')",
  ],
  ['the quota used in each month equals a recount', 'UPDATE emails SET quota_month = 24000 WHERE id = 1'],
  ['every email has the number of recipients that was accepted', 'UPDATE emails SET recipient_count = 2 WHERE id = 1'],
  [
    'a recipient is in the queue exactly while it is open and no draft',
    'UPDATE recipients SET next_at = NULL WHERE id = 1',
  ],
  ['the status of each email follows from its recipients', 'UPDATE recipients SET status = 2 WHERE id = 1'],
  [
    'each final recipient has an event of its final status',
    'UPDATE recipients SET status = 4, lane = NULL, next_at = NULL WHERE id = 1',
  ],
  [
    'only recipients that are processing, sent or uncertain have a delivery start, and only sent ones a delivery end',
    'UPDATE recipients SET delivery_started_at = 1 WHERE id = 1',
  ],
  ['no recipient was sent to twice', 'UPDATE events SET type = 3, recipient_id = 1'],
  [
    'the reason of each dead letter matches the status of its recipient',
    "INSERT INTO dead_letters (account_id, email_id, recipient_id, reason, failed_at) VALUES (1, 1, 1, 'failed', 1)",
  ],
  [
    'who is active in a sequence has a next step, nobody else has, and nobody is in a deleted sequence',
    `INSERT INTO sequence_people (uuid, account_id, sequence_id, address_key, email, place, since_at, sent, created_at)
     VALUES (x'00', 1, 7, 'a@b.test', 'a@b.test', 0, 1, '[]', 1)`,
  ],
  [
    'a webhook delivery has a next attempt time exactly while it is pending',
    "INSERT INTO webhook_deliveries (uuid, webhook_id, event, status, attempts, created_at) VALUES (x'00', 1, 'sent', 0, 1, 1)",
  ],
  [
    'no webhook cursor is ahead of the events of its account',
    "INSERT INTO webhooks (uuid, account_id, url, events, secret, cursor_seq, created_at, updated_at) VALUES (x'00', 1, '', '[]', x'00', 1000, 1, 1)",
  ],
  [
    'every counted open event exists',
    'INSERT INTO opens (recipient_id, human, events, last_event_at) VALUES (1, 1, 1, 1)',
  ],
  ['everything that emails and idempotency keys refer to exists', 'UPDATE emails SET stream_id = 99 WHERE id = 1'],
  [
    'every body and attachment that an email refers to exists',
    'UPDATE emails SET text_ref = text_ref + 1000 WHERE id = 1',
  ],
  ['the database is intact', 'UPDATE emails SET account_id = 99 WHERE id = 1'],
  [
    'accepted = sent + bounced + failed + rejected + cancelled + uncertain + open, in every account',
    'DELETE FROM emails WHERE id = 1',
  ],
]

describe('check finds a violation of:', () => {
  let db: Database
  beforeAll(() => {
    db = new Database(join(intact.path, 'tassis.db'))
    db.run('PRAGMA foreign_keys = OFF')
  })
  afterAll(() => db.close())

  const known = new Set(CONSISTENCY_RULES.map(({ rule }) => rule))
  test.each(CORRUPTIONS)('%s', async (rule, sql) => {
    // The command adds the others.
    if (!known.has(rule)) return expect(await findBroken(sql)).toContain(rule)
    db.run('SAVEPOINT intact')
    try {
      db.run(sql)
      const wrong = checkConsistency(db).filter(({ differences }) => differences.length > 0)
      expect(wrong.map((finding) => finding.rule)).toContain(rule)
    } finally {
      db.run('ROLLBACK TO intact')
      db.run('RELEASE intact')
    }
  })
})
