/** @module The account's own wording over HTTP: what can be set, what is refused, and what mails and pages then show. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { closeAccount } from '#features/core/accounts/rows.ts'
import { removeAccountRows } from '#features/lifecycle/privacy/account-rows.ts'
import { listPlaceholders, TEXTS } from '#features/setup/wording/languages.ts'
import { DEFAULT_TEXTS, parseTexts } from '#features/setup/wording/texts.ts'
import { chooseLanguage, LANGUAGES } from '#platform/http/language.ts'
import {
  type ConfirmingService,
  createConfirmingService,
  PUBLIC_URL,
} from '#test/features/audience/contact-lists/confirmation-fixture.ts'
import { findUnsubscribePath } from '#test/features/sending/unsubscribe/fixture.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { createTestAccount } from '#test/support/app.ts'
import { drawLogo, putLogo } from './logos.ts'

const PATH = '/v1/account/wording'
const HOSTILE = `<script>alert(1)</script>"><img src=x onerror=alert(1)> & 'quotes'`

let service: ConfirmingService
let people = 0

beforeAll(async () => {
  service = await createConfirmingService()
})
afterAll(() => service?.[Symbol.asyncDispose]())
beforeEach(() => service.api('DELETE', PATH))

const change = (body: unknown): Promise<ApiResponse> => service.api('PATCH', PATH, body)
const changed = async (body: unknown): Promise<unknown> => {
  const answer = await change(body)
  expect(answer.status).toBe(200)
  return at(answer.body, 'data')
}
const read = async (): Promise<unknown> => at((await service.api('GET', PATH)).body, 'data')

/** Adds a new contact and returns its confirmation, with the path of its link. */
async function confirmation(listName: string, language?: string) {
  const list = await service.list({ name: listName })
  const email = `person${++people}@receiver.test`
  await service.add(list, { email, ...(language !== undefined && { metadata: { language } }) })
  await service.drained()
  const [{ uuid } = { uuid: new Uint8Array() }] = service.app.db
    .query<{ uuid: Uint8Array }, [string]>(
      'SELECT uuid FROM emails JOIN recipients ON email_id = emails.id WHERE address = ?',
    )
    .all(email)
  const id = Buffer.from(uuid).toString('hex')
  const mail = await service.detail(id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'))
  const path = /\/confirm\/[\w-]+/.exec(String(mail['text_body']))?.[0] ?? ''
  return { mail, path, email, html: String(mail['html_body']), text: String(mail['text_body']) }
}

/** Sends mail to unsubscribe from, and returns the path of its link. */
async function unsubscribeLink(): Promise<string> {
  const { id } = await service.accepted({ to: `person${++people}@receiver.test`, transactional: false })
  return findUnsubscribePath(service.app, id)
}

async function page(method: string, path: string, language = 'en', body?: URLSearchParams): Promise<string> {
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: { 'accept-language': language },
    ...(body && { body }),
  })
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
  return await response.text()
}

describe('the wording', () => {
  // Proves: account-16
  test('is empty at first, with our texts as defaults; PATCH replaces languages, DELETE resets everything', async () => {
    expect(await read()).toMatchObject({
      name: null,
      logo: null,
      texts: {},
      defaults: {
        en: { mail_subject: 'Please confirm your subscription to {{list}}', unsubscribe_button: 'Unsubscribe' },
        de: { confirm_button: 'Bestätigen' },
      },
    })
    await changed({
      name: ' Ada & Co ',
      texts: { de: { confirm_heading: 'Los?', mail_footer: 'a\r\nb' }, fr: { confirm_button: 'Oui' } },
    })
    expect(await changed({ texts: { fr: null, en: { confirm_heading: '', confirm_text: null } } })).toMatchObject({
      name: 'Ada & Co',
      texts: { de: { confirm_heading: 'Los?', mail_footer: 'a\nb' } },
    })
    expect(Object.keys(at(await read(), 'texts') as object)).toEqual(['de'])
    expect(await changed({ name: null })).toMatchObject({ name: null, texts: { de: { confirm_heading: 'Los?' } } })
    expect((await service.api('DELETE', PATH)).status).toBe(204)
    expect(await read()).toMatchObject({ name: null, logo: null, texts: {} })
    expect(service.audited('wording.updated').slice(-3)).toEqual([
      { name: 'Ada & Co', languages: ['de', 'fr'] },
      { languages: ['en', 'fr'] },
      { name: null },
    ])
  })

  // Proves: account-16
  test('20 concurrent changes of different languages and of the name are all kept', async () => {
    const languages = ['en', 'de', 'fr', 'es', 'it', 'nl', 'pl', 'pt']
    await Promise.all([
      ...languages.map((language) => changed({ texts: { [language]: { confirm_button: `Yes ${language}` } } })),
      changed({ name: 'Ada' }),
      putLogo(service, await drawLogo('png', 20, 20)),
    ])
    expect(await read()).toMatchObject({
      name: 'Ada',
      logo: { width: 20 },
      texts: Object.fromEntries(languages.map((language) => [language, { confirm_button: `Yes ${language}` }])),
    })
  })

  // Proves: account-17
  test.each([
    [{}, 'body'],
    [{ name: 'x'.repeat(101) }, 'name'],
    [{ name: 'a\r\nBcc: eve@evil.test' }, 'name'],
    [{ name: '\u202etest' }, 'name'],
    [{ name: '\u200b\u3164\u2800' }, 'name'],
    [{ texts: { en: { mail_subject: 'Hi\r\nBcc: eve@evil.test' } } }, 'texts.en.mail_subject'],
    [{ texts: { en: { mail_subject: 'Hi\u2028there' } } }, 'texts.en.mail_subject'],
    [{ texts: { en: { mail_intro: 'a\u0000b' } } }, 'texts.en.mail_intro'],
    [{ texts: { en: { confirm_text: '\u2066hidden' } } }, 'texts.en.confirm_text'],
    [{ texts: { de: { confirm_button: '\u200b \u00ad' } } }, 'texts.de.confirm_button'],
    [{ texts: { de: { unsubscribe_button: '…' } } }, 'texts.de.unsubscribe_button'],
    [{ texts: { de: { confirm_text: 'x'.repeat(10_000) } } }, 'texts.de.confirm_text'],
    [{ texts: { de: { nothing: 'x' } } }, 'texts.de.nothing'],
    [{ texts: { xx: { confirm_text: 'x' } } }, 'texts.xx'],
    [{ texts: { en: { mail_intro: 'Hello {{first_name}}' } } }, 'texts.en.mail_intro'],
    [{ texts: { en: { mail_intro: 'Hello {{name' } } }, 'texts.en.mail_intro'],
    [{ texts: { en: { unsubscribe_text: 'From {{list}}' } } }, 'texts.en.unsubscribe_text'],
  ])('refuses %j', async (body, field) => {
    const answer = await change(body)
    expect({
      status: answer.status,
      fields: (at(answer.body, 'details') as { field: string }[]).map((detail) => detail.field),
    }).toEqual({
      status: 422,
      fields: [field],
    })
    expect(await read()).toMatchObject({ name: null, texts: {} })
  })

  // Proves: account-17
  test('the 422 for an unknown placeholder names it and those that can be used', async () => {
    const { body } = await change({ texts: { en: { mail_intro: 'Hello {{ first_name }}' } } })
    expect(body).toMatchObject({
      code: 'unknown_placeholder',
      message: 'texts.en.mail_intro: {{ first_name }} is not a placeholder; {{name}} and {{list}} can be used here.',
    })
  })
})

describe('a confirmation', () => {
  // Proves: account-20
  test('shows the texts of its language, and ours for everything else; the link and our notes stay', async () => {
    await changed({
      name: 'Ada & Co',
      texts: {
        de: {
          mail_subject: 'Noch ein Klick für {{list}}, {{name}}',
          mail_intro: 'Hallo,\nschön, dass Sie da sind.',
          mail_button: 'Ja, ich will',
          mail_footer: 'Ada & Co\nHauptstraße 1',
          confirm_heading: 'Nur noch ein Klick',
          confirm_text: 'Für {{ list }} von {{name}} und {list}.',
        },
      },
    })
    const { mail, html, text, path } = await confirmation('Kunden <1>', 'de-AT')
    expect(mail['subject']).toBe('Noch ein Klick für Kunden <1>, Ada & Co')
    expect(mail['from_address']).toBe('Ada & Co <no-reply@sender.test>')
    expect(text).toStartWith('Hallo,\nschön, dass Sie da sind.\n\n')
    expect(text).toContain('von Ada & Co (sender.test) angemeldet.')
    expect(text).toContain(`${PUBLIC_URL}${path}`)
    expect(text).toContain('Falls Sie das nicht waren')
    expect(text).toEndWith('\nAda & Co\nHauptstraße 1\n')
    expect(html).toContain('Hallo,<br>schön, dass Sie da sind.')
    expect(html).toContain('>Ja, ich will</a>')
    expect(html.split(`href="${PUBLIC_URL}${path}"`)).toHaveLength(3)
    const asked = await page('GET', path, 'de')
    expect(asked).toContain('<h1>Nur noch ein Klick</h1>')
    expect(asked).toContain('Für Kunden &lt;1&gt; von Ada &amp; Co und {list}.')
    expect(asked).toContain('<bdi>Ada &amp; Co</bdi></strong> (<bdi>sender.test</bdi>)')
    expect(asked).toContain('<button>Bestätigen</button>')
    // There are no English texts: ours.
    expect(await page('GET', path, 'en')).toContain('<h1>Confirm your subscription?</h1>')
    const other = await confirmation('Customers')
    expect(other.mail['subject']).toBe('Please confirm your subscription to Customers')
  })

  // Proves: account-17, account-20
  test('hostile texts are text only, in mails and on pages', async () => {
    const names = ['mail_intro', 'mail_footer', 'confirm_text', 'confirmed_text'] as const
    await changed({
      name: HOSTILE,
      texts: {
        en: {
          ...Object.fromEntries(names.map((name) => [name, `${HOSTILE}\n{{list}}`])),
          mail_subject: `{{list}} =?utf-8?q?Bcc?= ${HOSTILE}`,
          mail_button: '</a><script>1',
          confirm_heading: HOSTILE,
          confirm_button: '</button><script>1',
          confirmed_heading: HOSTILE,
        },
      },
    })
    const { mail, html, path } = await confirmation('A <b>{{name}}')
    expect(String(mail['subject'])).toStartWith('A <b>{{name}} =?utf-8?q?Bcc?= <script>')
    for (const shown of [html, await page('GET', path), await page('POST', path)]) {
      expect(shown).not.toMatch(/<script|<b>|<img src=x/)
      expect(shown).toContain('&lt;script&gt;')
    }
    expect(html).toContain(`href="${PUBLIC_URL}${path}"`)
  })

  // Proves: account-20
  test('a subject that the name of the list makes too long for a header is ours', async () => {
    await changed({ texts: { en: { mail_subject: '{{list}}'.repeat(25) } } })
    expect((await confirmation('L'.repeat(40))).mail['subject']).toBe(
      `Please confirm your subscription to ${'L'.repeat(40)}`,
    )
    expect((await confirmation('L'.repeat(39))).mail['subject']).toBe('L'.repeat(25 * 39))
  })

  // Proves: account-20
  test('a button of nothing but a placeholder is ours where that has no letter', async () => {
    await changed({ texts: { en: { confirm_button: '{{list}}', mail_button: '{{ list }}' } } })
    const { html, path } = await confirmation('!!!')
    expect(html).toContain('>Confirm the subscription</a>')
    expect(await page('GET', path)).toContain('<button>Confirm</button>')
  })
})

describe('an unsubscribe page', () => {
  // Proves: account-20
  test('shows the texts of its language; buttons, sender and the offer of all mail stay', async () => {
    await changed({
      name: 'Ada & Co',
      texts: {
        en: {
          unsubscribe_heading: 'Leaving {{name}}?',
          unsubscribe_text: `We will miss you.\n${HOSTILE}`,
          unsubscribe_button: 'Stop these mails',
          unsubscribed_heading: 'Done',
          unsubscribed_text: 'Goodbye.',
        },
      },
    })
    const path = await unsubscribeLink()
    const asked = await page('GET', path)
    expect(asked).toContain('<h1>Leaving Ada &amp; Co?</h1>')
    expect(asked).toContain('<p dir="auto">We will miss you.<br>&lt;script&gt;')
    expect(asked).toContain('<p class="brand"><bdi>Ada &amp; Co</bdi></p>')
    expect(asked).toContain('value="unsubscribe">Stop these mails</button>')
    expect(asked).toContain('<bdi>sender.test</bdi>')
    expect(await page('GET', path, 'pl')).toContain('<h1>Wypisać się?</h1>')
    const done = await page('POST', path, 'en', new URLSearchParams({ action: 'unsubscribe' }))
    expect(done).toContain('<h1>Done</h1>\n<p dir="auto">Goodbye.</p>')
    expect(done).toContain('value="resubscribe')
    await service.api('DELETE', PATH)
    expect(await page('GET', path)).toContain('<h1>You are unsubscribed</h1>')
  })
})

// Proves: account-21
test('a deleted account: its pages show no wording, its logo is a 404, and the row is deleted with it', async () => {
  const actor = await createTestAccount(service.app)
  const key = await service.newKey([], actor)
  await service.api('PATCH', PATH, { name: 'Gone & Co' }, { key })
  const url = new URL(
    String(at((await putLogo(service, await drawLogo('png', 33, 44), key)).body, 'data', 'logo', 'url')),
  )
  const logo = () => fetch(`${service.url}${url.pathname}`).then(({ status }) => status)
  const rows = () =>
    service.app.db.query('SELECT account_id FROM wordings WHERE account_id = ?').all(actor.accountId).length
  expect([await logo(), rows()]).toEqual([200, 1])
  const { body: exported } = await service.api('GET', '/v1/account/export', undefined, { key })
  expect(at(exported, 'data', 'wording')).toEqual([
    {
      name: 'Gone & Co',
      logo: expect.objectContaining({ width: 33, height: 44 }),
      texts: {},
      logo_content: (await (await fetch(`${service.url}${url.pathname}`)).bytes()).toBase64(),
    },
  ])
  // As a deletion begins; its loop would remove the row at any moment.
  await service.app.commit.write((tx) => closeAccount(tx, actor.accountId, service.app.eventTime()))
  expect([await logo(), rows()]).toEqual([404, 1])
  while ((await service.app.commit.write((tx) => removeAccountRows(service.app, tx, actor.accountId))) > 0);
  expect(rows()).toBe(0)
})

// Proves: suppress-15
test.each(LANGUAGES)(
  'the texts in %s have the keys and placeholders of the English ones, and no markup',
  (language) => {
    const describeTexts = (texts: object) =>
      Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, listPlaceholders(text).sort()]))
    expect(describeTexts(TEXTS[language])).toEqual(describeTexts(TEXTS.en))
    expect(Object.values(TEXTS[language]).filter((text) => !/^[^<>&"'\s][^<>&"']*\S$/.test(text))).toEqual([])
    const others = LANGUAGES.filter((other) => other !== language)
    expect(others.filter((other) => TEXTS[other].mail_reason === TEXTS[language].mail_reason)).toEqual([])
    const defaults = DEFAULT_TEXTS[language] ?? {}
    expect(Object.keys(defaults)).toHaveLength(9)
    expect(parseTexts(language, defaults)).toEqual(defaults)
  },
)

test.each([
  [null, 'en'],
  ['', 'en'],
  ['de', 'de'],
  ['de-AT', 'de'],
  ['DE-at,en;q=0.5', 'de'],
  ['fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5', 'fr'],
  ['sv, pl;q=0.8, en;q=0.3', 'pl'],
  ['en;q=0.2, nl;q=0.9', 'nl'],
  ['en, de', 'en'],
  ['de, en', 'de'],
  ['zh-Hant-TW, pt-BR;q=0.8', 'pt'],
  ['sv, ja', 'en'],
  ['*', 'en'],
  ['sv, *;q=0.5, de;q=0.4', 'en'],
  ['de;q=0', 'en'],
  ['de;q=0, it;q=0.001', 'it'],
  [' es ; q=1.0 ', 'es'],
  ['den', 'en'],
  ['de_DE', 'en'],
  ['de;q=2, it;q=0.1', 'it'],
  ['q=1;de', 'en'],
  ['de\0', 'en'],
  [`${'sv,'.repeat(1000)}de`, 'en'],
  [','.repeat(100_000), 'en'],
  ['a'.repeat(100_000), 'en'],
  [`a${'-a'.repeat(50_000)}`, 'en'],
] as const)('the language of %j is %s', (accepted, language) => {
  expect(chooseLanguage(accepted)).toBe(language)
})
