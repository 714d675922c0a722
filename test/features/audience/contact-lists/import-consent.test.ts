import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { systemClock } from '#platform/time/clock.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { completed, createList, imported, listContacts, postFile, spooledFiles } from './files.ts'

/** A service that runs imports and sends to a receiver. */
async function startService() {
  const receiver = await startScriptedSmtp()
  const service = await createEmailApi({
    clock: systemClock,
    delivers: true,
    runsTasks: true,
    settings: {
      TASSIS_DELIVERY: 'relay',
      TASSIS_RELAY_URL: `smtp://127.0.0.1:${receiver.port}`,
      TASSIS_RELAY_TLS: 'opportunistic',
    },
  })
  return {
    service,
    /** Sends a broadcast to a list; resolves with the addresses that got it, once all mail is settled. */
    async broadcast(list: string): Promise<string[]> {
      const before = receiver.sessions.map(({ commands }) => commands.length)
      const news = { from_address: 'ada@sender.test', subject: 'News', text_body: 'Hello.' }
      const sent = await service.api('POST', '/v1/emails/broadcast', { contact_list_id: list, ...news })
      const id = String(at(sent.body, 'data', 'operation_id'))
      await eventually(async () => {
        const { body } = await service.api('GET', `/v1/operations/${id}`)
        const open = service.app.db.query<{ n: number }, []>(
          'SELECT count(*) AS n FROM recipients WHERE lane IS NOT NULL',
        )
        return at(body, 'data', 'status') === 'completed' && open.get()?.n === 0
      })
      return receiver.sessions
        .flatMap(({ commands }, i) => commands.slice(before[i] ?? 0))
        .flatMap((command) => /^RCPT TO:<(.*)@x\.test>/i.exec(command)?.[1] ?? [])
        .sort()
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await receiver[Symbol.asyncDispose]()
    },
  }
}

const MAILCHIMP =
  '"Email Address","First Name","Last Name",Address,"Phone Number",Birthday,MEMBER_RATING,OPTIN_TIME,OPTIN_IP,CONFIRM_TIME,CONFIRM_IP,LATITUDE,LONGITUDE,GMTOFF,DSTOFF,TIMEZONE,CC,REGION'
const MAILCHIMP_END = 'LAST_CHANGED,LEID,EUID,NOTES,TAGS'
const mailchimp = (name: string, more = '') =>
  `${name}@x.test,Bob,B,"1 Long St",,,2,,,"2024-01-02 10:00:00",192.0.2.1,,,,,,,${more},"2024-02-02 10:00:00",1,e,,"""vip"""`

// The columns of each service's export, in their order; a contact `yes…` may get mail, and no other.
const exports: { from: string; files: string[] }[] = [
  {
    from: 'Mailchimp',
    files: [
      `${MAILCHIMP},${MAILCHIMP_END}\n${mailchimp('yes')}\n`,
      `${MAILCHIMP},UNSUB_TIME,UNSUB_CAMPAIGN_TITLE,UNSUB_CAMPAIGN_ID,UNSUB_REASON,UNSUB_REASON_OTHER,${MAILCHIMP_END}\n${mailchimp('left', ',"2024-02-01 10:00:00",News,c1,"No longer interested",')}\n`,
      `${MAILCHIMP},CLEAN_TIME,CLEAN_CAMPAIGN_TITLE,CLEAN_CAMPAIGN_ID,${MAILCHIMP_END}\n${mailchimp('bounced', ',"2024-02-01 10:00:00",News,c1')}\n`,
    ],
  },
  {
    from: 'Brevo',
    files: [
      'CONTACT ID;EMAIL;FIRSTNAME;LASTNAME;SMS;BLOCKLISTED;ADDED_TIME;MODIFIED_TIME\n1;yes@x.test;Bob;B;;No;01-02-2024;01-02-2024\n2;left@x.test;Eve;E;;Yes;01-02-2024;01-02-2024\n',
      'EMAIL,FIRSTNAME,EMAIL_BLACKLISTED,SMS_BLACKLISTED\nyes2@x.test,Bob,FALSE,TRUE\nleft2@x.test,Eve,TRUE,FALSE\n',
      'EMAIL,STATUS\nleft3@x.test,BLOCKLISTED\n',
    ],
  },
  {
    from: 'Ghost',
    files: [
      'id,email,name,note,subscribed_to_emails,complimentary_plan,stripe_customer_id,created_at,deleted_at,labels,tiers\n1,yes@x.test,Bob,,true,,,2024-01-02T10:00:00.000Z,,,\n2,left@x.test,Eve,,false,,,2024-01-02T10:00:00.000Z,,,\n3,gone@x.test,Eve,,true,,,2024-01-02T10:00:00.000Z,2024-01-02T10:00:00.000Z,,\n',
    ],
  },
  {
    from: 'Resend',
    files: [
      'id,email,first_name,last_name,created_at,unsubscribed\n1,yes@x.test,Bob,,2024-01-02,false\n2,left@x.test,Eve,,2024-01-02,true\n',
    ],
  },
  {
    from: 'listmonk',
    files: [
      'uuid,email,name,attributes,status,created_at,updated_at\n1,yes@x.test,Bob,"{""city"": ""Berlin""}",enabled,2025-01-02T10:00:00Z,2025-01-02T10:00:00Z\n2,left@x.test,Eve,{},blocklisted,2025-01-02T10:00:00Z,2025-01-02T10:00:00Z\n3,off@x.test,Eve,{},disabled,2025-01-02T10:00:00Z,2025-01-02T10:00:00Z\n',
    ],
  },
  {
    from: 'Postmark',
    files: [
      'EmailAddress,SuppressionReason,Origin,CreatedAt\nbounced@x.test,HardBounce,Recipient,2026-01-02T03:04:05Z\ncomplained@x.test,SpamComplaint,Recipient,2026-01-02\nleft@x.test,ManualSuppression,Customer,2026-01-02\n',
    ],
  },
  {
    from: 'Mailgun, of a list and of bounces',
    files: [
      'address,name,vars,subscribed\nyes@x.test,Bob,{},yes\nleft@x.test,Eve,{},no\n',
      'address,code,error,created_at\nbounced@x.test,550,"No such user","Fri, 18 Oct 2024 18:28:14 UTC"\n',
    ],
  },
  {
    from: 'SendGrid, of bounces and of contacts',
    files: [
      'status,reason,email,created\n5.1.1,"550 5.1.1 no such account",bounced@x.test,1700000000\n5.0.0,"Mailbox unavailable, 550",bounced2@x.test,1700000000\n',
      'EMAIL,FIRST_NAME,UNSUBSCRIBED,CREATED_AT\nyes@x.test,Bob,,2024-01-02\nleft@x.test,Eve,2024-02-02T10:00:00Z,2024-01-02\n',
    ],
  },
  {
    from: 'Keila, MailerLite, ActiveCampaign and Kit',
    files: [
      'Email,First name,Last name,Status,Data\nyes@x.test,Bob,,active,{}\nleft@x.test,Eve,,unsubscribed,{}\nbounced@x.test,Eve,,unreachable,{}\n',
      'Subscriber,Name,Subscribed,Unsubscribed,Status\nyes2@x.test,Bob,2024-01-02 10:00:00,,Active\nleft2@x.test,Eve,2024-01-02 10:00:00,2024-02-02 10:00:00,Unsubscribed\nasked@x.test,Eve,,,Unconfirmed\n',
      'Email,Contact Status,Opt-in IP\nyes3@x.test,Active,192.0.2.1\nleft3@x.test,Unsubscribed,\nbounced2@x.test,Bounced,\n',
      'email,first_name,status\nyes4@x.test,Bob,active\nleft4@x.test,Eve,cancelled\nspam@x.test,Eve,complained\nidle@x.test,Eve,inactive\n',
    ],
  },
  {
    from: 'Klaviyo, HubSpot, Shopify and Salesforce',
    files: [
      'Email,First Name,Email Marketing Consent,Email Marketing Consent Timestamp,SMS Marketing Consent\nyes@x.test,Bob,SUBSCRIBED,2024-01-02,UNSUBSCRIBED\nleft@x.test,Eve,UNSUBSCRIBED,2024-01-02,\nnever@x.test,Eve,NEVER_SUBSCRIBED,,\n',
      'Record ID,Email,Unsubscribed from all email,Invalid email address\n1,yes2@x.test,,\n2,left2@x.test,true,\n3,bounced@x.test,false,true\n',
      "First Name,Email,Accepts Email Marketing,Accepts SMS Marketing,Phone\nBob,yes3@x.test,yes,no,'+4930123\nEve,left3@x.test,no,yes,\n",
      'Id,Email,HasOptedOutOfEmail,IsEmailBounced\n1,yes4@x.test,0,0\n2,left4@x.test,1,0\n3,bounced2@x.test,0,1\n',
    ],
  },
  {
    from: 'Substack and beehiiv',
    files: [
      'email,active_subscription,expiry,plan,email_disabled,created_at\nyes@x.test,false,,free,false,2024-01-02\nleft@x.test,true,,paid,true,2024-01-02\n',
      'email,status,subscription_tier,created_at\nyes2@x.test,active,free,2024-01-02\nleft2@x.test,inactive,free,2024-01-02\nasked@x.test,pending,free,2024-01-02\nbounced@x.test,invalid,free,2024-01-02\n',
    ],
  },
  {
    from: 'a spreadsheet in another language',
    files: [
      'E-Mail;Name;Einwilligung\nyes@x.test;Bob;ja\nleft@x.test;Eve;nein\n',
      'email,abgemeldet\nyes2@x.test,\nleft2@x.test,x\n',
      'email,Consentement\nyes3@x.test,oui\nleft3@x.test,non\n',
      'Courriel;Nom;Inscrit à la newsletter\nyes6@x.test;Bob;VRAI\nleft8@x.test;Eve;FAUX\n',
      'E-Mail *;Einwilligung;Widerruf\nyes7@x.test;ja;\nleft9@x.test;ja;01.02.2024\n',
      'email;activated;deactivated;eu_consent\nyes8@x.test;2024-01-02;0;granted\nleft7@x.test;2024-01-02;2024-02-02;granted\n',
      'email,Marketing Consent,opted_out,unsubscribed_at,bounced,complained\nyes4@x.test,Y,0,0000-00-00 00:00:00,no,no\nleft4@x.test,N,,,,\nleft5@x.test,Y,1,,,\nleft6@x.test,Y,,12/03/24,,\nbounced@x.test,Y,,,yes,\nspam@x.test,Y,,NULL,,TRUE\n',
    ],
  },
]

describe('an export', () => {
  let flow: Awaited<ReturnType<typeof startService>>
  beforeAll(async () => {
    flow = await startService()
  })
  afterAll(() => flow[Symbol.asyncDispose]())

  // Proves: contact-20
  test.each(exports)(
    'of $from is obeyed: a broadcast reaches those who may get it, and nobody else',
    async ({ from, files }) => {
      const list = await createList(flow.service, { name: from })
      for (const file of files)
        expect(await imported(flow.service, list, file)).toMatchObject({ status: 'completed', errors: [] })
      const contacts = (await listContacts(flow.service, list)) as string[][]
      const toName = (email = '') => email.split('@')[0] ?? ''
      const stopped = { bounced: 'bounced', complained: 'complained', spam: 'complained', asked: 'pending' } as const
      expect(contacts.map(([email, status]) => [toName(email), status])).toEqual(
        contacts.map(([email]) => {
          const name = toName(email)
          const kind = name.replace(/\d$/, '')
          return [name, kind === 'yes' ? 'active' : (stopped[kind as keyof typeof stopped] ?? 'unsubscribed')]
        }),
      )
      const allowed = contacts.map(([email]) => toName(email)).filter((name) => name.startsWith('yes'))
      if (allowed.length > 0) expect(await flow.broadcast(list)).toEqual(allowed.sort())
      const { body } = await flow.service.api('GET', '/v1/suppressions?per_page=100')
      const suppressions = at(body, 'data')
      for (const [email = '', status] of contacts)
        if (status === 'bounced' || status === 'complained')
          expect(suppressions).toContainEqual(
            expect.objectContaining({
              email_address: email,
              reason: status === 'bounced' ? 'hard_bounce' : 'complaint',
              list_id: null,
            }),
          )
      expectBalanced(flow.service)
    },
  )
})

/** Columns as the query has them. */
const answer = (columns: unknown) => ({ query: `?columns=${encodeURIComponent(JSON.stringify(columns))}` })

async function preview({ url, key }: EmailApi, list: string, file: string, query = ''): Promise<unknown> {
  const response = await fetch(`${url}/v1/contact-lists/${list}/contacts/import/preview${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'text/csv' },
    body: file,
  })
  return at(await response.json(), 'data')
}

describe('a file that may say who gets no mail', () => {
  let asking: EmailApi
  let list: string
  beforeAll(async () => {
    asking = await createEmailApi()
    list = await createList(asking)
  })
  afterAll(() => asking[Symbol.asyncDispose]())

  const unclear: [name: string, file: string, column: string, values: string[]][] = [
    ['a word that is not known', 'email,status\na@x.test,active\nb@x.test,gold\n', 'status', ['gold']],
    ['a value that is no yes or no', 'email,unsubscribed\na@x.test,maybe\n', 'unsubscribed', ['maybe']],
    ['a column that is not known', 'email,Consent level\na@x.test,2\n', 'Consent level', ['2']],
    ['a part of an opt-out', 'email,opted_out_of_offers\na@x.test,true\n', 'opted_out_of_offers', ['true']],
    ['an opt-out in any column', 'email,type\na@x.test,Un-subscribed\n', 'type', ['Un-subscribed']],
    ['no consent beside consents', 'email,Newsletter\na@x.test,x\nb@x.test,\n', 'Newsletter', ['']],
    ['a number of bounces', 'email,bounces\na@x.test,3\n', 'bounces', ['3']],
    ['a column without a name', 'email,,b\na@x.test,a,b\n', '', ['a']],
    ["Mailgun's unsubscriptions", 'address,tags,created_at\na@x.test,*,2024-01-02\n', 'tags', ['*']],
    ["Mailgun's complaints", 'address,created_at\na@x.test,2024-01-02\n', 'created_at', ['2024-01-02']],
    ["SendGrid's spam reports", 'email,ip,created\na@x.test,192.0.2.1,1700000000\n', 'ip', ['192.0.2.1']],
    ['a word of another language', 'email,Abmeldedatum\na@x.test,2024-01-02\n', 'Abmeldedatum', ['2024-01-02']],
    [
      'a no to what may be mail',
      'email,I agree to receive news\na@x.test,yes\nb@x.test,No\n',
      'I agree to receive news',
      ['No'],
    ],
    [
      'a no of another language',
      'E-post;Aceita receber e-mails\na@x.test;Sim\nb@x.test;Não\n',
      'Aceita receber e-mails',
      ['Não'],
    ],
    ['a wish to subscribe', 'email,Wants to subscribe\na@x.test,No\n', 'Wants to subscribe', ['No']],
    ['no membership', 'email,On mailing list\na@x.test,yes\nb@x.test,no\n', 'On mailing list', ['no']],
    ['an address without delivery', 'email,Deliverable\na@x.test,false\n', 'Deliverable', ['false']],
    ['a no to advertising', 'E-Mail;Werbung\na@x.test;nein\n', 'Werbung', ['nein']],
    ['a quarantine', 'email,In quarantine\na@x.test,1\n', 'In quarantine', ['1']],
    ["SendGrid's suppressions", 'email,created\na@x.test,1700000000\n', 'created', ['1700000000']],
  ]
  // Proves: contact-23, contact-20
  test.each(unclear)('by %s is a question that names it, and imports nothing', async (_, file, column, values) => {
    const before = asking.stored()
    const refused = await postFile(asking, list, file)
    expectError(refused, 422, 'unclear_columns', `columns.${column}`)
    const message = String(at(refused.body, 'message'))
    for (const part of column === '' ? values : [column, ...values]) expect(message).toContain(JSON.stringify(part))
    expect(message).toContain('Answer with the parameter columns')
    expect(await preview(asking, list, file)).toMatchObject({ questions: [{ column, values }] })
    expect(spooledFiles(asking)).toEqual([])
    expect(asking.stored()).toEqual(before)
    const { query } = answer({ [column]: 'ignore' })
    expect(await preview(asking, list, file, query)).toMatchObject({ questions: [] })
  })

  test('is asked about its last line before its first is imported', async () => {
    await using service = await createEmailApi({ runsTasks: true })
    const list = await createList(service)
    const lines = Array.from({ length: 5000 }, (_, i) => `u${i}@x.test,active,${'x'.repeat(100)}`)
    const file = `email,status,note\n${lines.join('\n')}\nlast@x.test,gold,\n`
    expectError(await postFile(service, list, file), 422, 'unclear_columns', 'columns.status')
    expect(await listContacts(service, list)).toEqual([])
  })

  // Proves: contact-20
  test('imports what the answer says: of a column, or of its values', async () => {
    await using service = await createEmailApi({ runsTasks: true })
    const list = await createList(service)
    const file = 'email,Tier,Consent level,bounces\na@x.test,unsubscribed,2,0\nb@x.test,vip,0,3\nc@x.test,vip,1,\n'
    const columns = {
      Tier: 'metadata',
      'Consent level': { '0': 'active', '1': 'unsubscribed', '2': 'active' },
      bounces: 'bounced',
    }
    const { query } = answer(columns)
    expect(await preview(service, list, file, query)).toMatchObject({ questions: [], invalid: 0 })
    const posted = await postFile(service, list, file, { query })
    const path = `/v1/operations/${String(at(posted.body, 'data', 'operation_id'))}`
    const operation = await eventually(async () => {
      const data = at((await service.api('GET', path)).body, 'data') as { status: string; metadata: object }
      return data.status === 'completed' && data
    })
    // What was answered is on record.
    expect(operation).toMatchObject({ failed_items: 0, metadata: { columns } })
    expect(await listContacts(service, list)).toEqual([
      ['a@x.test', 'active', { Tier: 'unsubscribed' }],
      ['b@x.test', 'bounced', { Tier: 'vip' }],
      ['c@x.test', 'unsubscribed', { Tier: 'vip' }],
    ])
    expectBalanced(service)
  })

  // Proves: contact-20
  test.each([
    ['not JSON', 'Tier:metadata', /columns must be a JSON object/],
    ['with an unknown meaning', '{"Tier":"perhaps"}', /columns must be a JSON object/],
    ['with an unknown status', '{"Tier":{"vip":"gold"}}', /columns must be a JSON object/],
    ['about a column that the file does not have', '{"Teir":"metadata"}', /no column "Teir" among "email", "Tier"/],
  ])('with an answer that is %s is a 422', async (_, columns, message) => {
    const query = `?columns=${encodeURIComponent(columns)}`
    const refused = await postFile(asking, list, 'email,Tier\na@x.test,vip\n', { query })
    expectError(refused, 422, 'validation_failed', 'columns')
    expect(at(refused.body, 'message')).toMatch(message)
    expect(spooledFiles(asking)).toEqual([])
  })
})

describe('a file about something else', () => {
  let service: EmailApi
  beforeAll(async () => {
    service = await createEmailApi({ runsTasks: true })
  })
  afterAll(() => service[Symbol.asyncDispose]())

  // Proves: contact-20
  test.each([
    ['address and postal address', 'Email Address,Address\na@x.test,1 Long St\n', { Address: '1 Long St' }],
    [
      'details of a consent',
      'email,OPTIN_IP,consent_date\na@x.test,192.0.2.1,2024-01-02\n',
      { OPTIN_IP: '192.0.2.1', consent_date: '2024-01-02' },
    ],
    [
      'other channels',
      'email,SMS Opt Out,phone_consent\na@x.test,true,no\n',
      { 'SMS Opt Out': 'true', phone_consent: 'no' },
    ],
    [
      'states and plans',
      'email,State,order status,subscription_tier\na@x.test,CA,open,pro\n',
      { State: 'CA', 'order status': 'open', subscription_tier: 'pro' },
    ],
    [
      'a yes to what may be mail, and facts about mail',
      'email,Keep me updated,Emails received,Mailing Country,Consent to Track\na@x.test,yes,0,NO,No\n',
      { 'Keep me updated': 'yes', 'Emails received': '0', 'Mailing Country': 'NO', 'Consent to Track': 'No' },
    ],
    ['a consent that nobody was asked for', 'email,Newsletter,b\na@x.test,,1\n', { b: '1' }],
    ['empty cells after the last column', 'email,b\na@x.test,1,\nb@,,,\n', { b: '1' }],
    ['nameless columns without content', 'email,,b,,\na@x.test,,1,,\n', { b: '1' }],
  ])('imports %s as it is', async (name, file, metadata) => {
    const list = await createList(service, { name })
    const result = await imported(service, list, file)
    expect(result).toMatchObject({ status: 'completed', inserted: 1 })
    expect(await listContacts(service, list)).toEqual([['a@x.test', 'active', metadata]])
  })

  test('is rejected line by line where a cell has no column', async () => {
    const list = await createList(service)
    expect(
      await imported(service, list, 'email,first_name\na@x.test,Bob,\nb@x.test,Eve,,\nc@x.test,Carol,more\n'),
    ).toMatchObject({
      ...completed(2),
      items: [3, 2, 1],
      error_summary: expect.anything(),
      errors: [{ line: 4, error: 'The line has 3 fields instead of 2.' }],
    })
  })
})
