import { expect, test } from 'bun:test'
import { createTestApi } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { importCsv, imported, pickStatusAndBody, rows } from './files.ts'

// Names of columns and words as these services write them.
const exports: { from: string; file: string; query?: string; rows: (string | number)[][]; ignored: string[] }[] = [
  {
    from: 'Postmark',
    file: 'EmailAddress,SuppressionReason,Origin,CreatedAt\na@x.test,HardBounce,Recipient,2026-01-02T03:04:05Z\nb@x.test,SpamComplaint,Recipient,2026-01-02\nc@x.test,ManualSuppression,Recipient,2026-01-02\nd@x.test,ManualSuppression,Customer,2026-01-02\n',
    rows: [
      ['a@x.test', 'hard_bounce', 0, 0],
      ['b@x.test', 'complaint', 0, 0],
      ['c@x.test', 'unsubscribe', 1, 0],
      ['d@x.test', 'manual', 0, 0],
    ],
    ignored: [],
  },
  {
    from: 'SendGrid, of bounces',
    file: `status,reason,email,created\n5.1.1,"550 5.1.1 The email account, that you tried to reach ${'does not exist '.repeat(30)}",a@x.test,1700000000\n,Bounced Address,b@x.test,1700000000\n,"error dialing remote address ${'x'.repeat(170)}\u{1f4a5} timed out",c@x.test,1700000000\n`,
    rows: [
      ['a@x.test', 'hard_bounce', 0, 0],
      ['b@x.test', 'hard_bounce', 0, 0],
      ['c@x.test', `error dialing remote address ${'x'.repeat(170)}`, 0, 0],
    ],
    ignored: ['status'],
  },
  {
    from: 'SendGrid, of unsubscriptions',
    file: 'email,created\na@x.test,1700000000\n',
    query: '?reason=unsubscribed',
    rows: [['a@x.test', 'unsubscribe', 1, 0]],
    ignored: [],
  },
  {
    from: 'Mailgun, of bounces',
    file: 'address,code,error,created_at\na@x.test,550,"No such user","Fri, 18 Oct 2024 18:28:14 UTC"\n',
    query: '?reason=hard_bounce',
    rows: [['a@x.test', 'hard_bounce', 0, 0]],
    ignored: ['code', 'error'],
  },
  {
    from: 'Amazon SES, as it imports them',
    file: 'a@x.test,BOUNCE\nb@x.test, COMPLAINT\n',
    rows: [
      ['a@x.test', 'hard_bounce', 0, 0],
      ['b@x.test', 'complaint', 0, 0],
    ],
    ignored: [],
  },
  {
    from: 'Resend',
    file: 'id,email,origin,source_id,created_at\n1,a@x.test,bounce,7,2026-01-02\n2,b@x.test,manual,,2026-01-02\n',
    rows: [
      ['a@x.test', 'hard_bounce', 0, 0],
      ['b@x.test', 'manual', 0, 0],
    ],
    ignored: ['id', 'source_id'],
  },
  {
    from: 'Postal',
    file: '"id","type","address","reason","timestamp","keep_until"\n1,recipient,a@x.test,"too many hard fails",1700000000.5,1702592000\n',
    rows: [['a@x.test', 'too many hard fails', 0, 0]],
    ignored: ['id', 'timestamp', 'keep_until'],
  },
  {
    from: 'Mandrill',
    file: 'email,reason,detail,created_at,last_event_at,expires_at,expired,sender,subaccount\na@x.test,hard-bounce,"smtp;550 no",,,,false,,\nb@x.test,spam,,,,,false,,\nc@x.test,unsub,,,,,false,,\n',
    rows: [
      ['a@x.test', 'hard_bounce', 0, 0],
      ['b@x.test', 'complaint', 0, 0],
      ['c@x.test', 'unsubscribe', 1, 0],
    ],
    ignored: ['detail', 'last_event_at', 'expires_at', 'expired', 'sender', 'subaccount'],
  },
  {
    from: 'a list of customers',
    file: 'Constructor,Email,Address,City\nAda,a@x.test,1 Long Street,Rome\n',
    query: '?reason=unsubscribe',
    rows: [['a@x.test', 'unsubscribe', 1, 0]],
    ignored: ['Constructor', 'Address', 'City'],
  },
  {
    from: 'SparkPost',
    file: 'recipient,type,source,description,created\na@x.test,non_transactional,Manually Added,,2026-01-02\n',
    query: '?reason=unsubscribe',
    rows: [['a@x.test', 'unsubscribe', 1, 0]],
    ignored: ['source', 'description'],
  },
]
// Proves: suppress-10
test.each(exports)('reads an unedited export of $from', async ({ file, query = '', rows: wanted, ignored }) => {
  await using service = await createTestApi()
  const answer = await importCsv(service, file, undefined, query)
  expect(pickStatusAndBody(answer)).toEqual(imported({ imported: wanted.length, ignored_columns: ignored }))
  expect(rows(service)).toEqual(wanted)
  expectBalanced(service)
})

test('takes the times of other services, and now for what is none', async () => {
  await using service = await createTestApi()
  await importCsv(
    service,
    'email,created\na@x.test,"Fri, 18 Oct 2024 18:28:14 UTC"\nb@x.test,1700000000.5\nc@x.test,5\n',
  )
  const times = service.app.db.query('SELECT min(created_at, 1750000000000) FROM suppressions ORDER BY id').values()
  expect(times).toEqual([[Date.UTC(2024, 9, 18, 18, 28, 14)], [1_700_000_000_500], [1_750_000_000_000]])
})
