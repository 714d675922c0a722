import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { renderConfirmationMail } from '#features/audience/contact-lists/confirmation-mail.ts'
import { toShownTexts } from '#features/setup/wording/wording.ts'
import { formatUuid } from '#platform/ids.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { type ConfirmingService, createConfirmingService, PUBLIC_URL } from './confirmation-fixture.ts'

test.each([
  ['en', 1, 'The link works for 1 day.'],
  ['de', 1, 'Der Link gilt 1 Tag.'],
  ['de', 7, 'Der Link gilt 7 Tage.'],
  ['fr', 7, 'Le lien est valable 7 jours.'],
  ['es', 7, 'El enlace es válido durante 7 días.'],
  ['it', 1, 'Il link è valido per 1 giorno.'],
  ['nl', 7, 'De link is 7 dagen geldig.'],
  ['pl', 1, 'Link jest ważny przez 1 dzień.'],
  ['pl', 7, 'Link jest ważny przez 7 dni.'],
  ['pt', 7, 'O link é válido durante 7 dias.'],
] as const)('the email in %s counts %d in the right plural', (language, days, sentence) => {
  const mail = { listName: 'News', address: 'a@b.test', senderDomain: 'c.test', url: 'https://x.test', days }
  const texts = toShownTexts({ name: null, logo: null, texts: {} }, { language, sender: 'c.test', list: 'News' })
  const { text } = renderConfirmationMail(texts, mail)
  expect(text.replaceAll('\u00a0', ' ')).toContain(`\n${sentence}\n`)
})

describe('the language of a confirmation', () => {
  let service: ConfirmingService
  beforeAll(async () => {
    service = await createConfirmingService()
  })
  afterAll(() => service?.[Symbol.asyncDispose]())

  /** The email to an address, once it is accepted. */
  const findMail = async (address: string) => {
    const { uuid } = await eventually(
      () =>
        service.app.db
          .query<{ uuid: Uint8Array }, [string]>(
            'SELECT uuid FROM emails JOIN recipients ON email_id = emails.id WHERE address = ?',
          )
          .get(address) ?? undefined,
    )
    const mail = await service.detail(formatUuid(uuid))
    const html = String(mail['html_body'])
    return {
      subject: mail['subject'],
      text: String(mail['text_body']),
      html,
      language: /<html lang="(\w+)">/.exec(html)?.[1],
      path: new RegExp(`^${PUBLIC_URL}(/confirm/[\\w-]+)$`, 'm').exec(String(mail['text_body']))?.[1] ?? '',
    }
  }
  const createForm = async (name: string) => {
    const fields = { custom_fields: [{ name: 'language', label: 'Language' }] }
    const list = await service.list({ name })
    const answer = await service.api('POST', '/v1/signup-forms', { list_id: list, title: 'Join', ...fields })
    return { list, path: `/subscribe/${at(answer.body, 'data', 'slug')}` }
  }
  const post = async (path: string, fields: Record<string, string>, accepted?: string) => {
    const answer = await fetch(`${service.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(accepted && { 'accept-language': accepted }) },
      body: JSON.stringify(fields),
    })
    expect(answer.status).toBe(200)
  }
  const open = async (method: string, path: string, accepted: string) => {
    const answer = await fetch(`${service.url}${path}`, { method, headers: { 'accept-language': accepted } })
    const text = await answer.text()
    return {
      status: answer.status,
      language: [/<html lang="(\w+)">/.exec(text)?.[1], answer.headers.get('content-language')],
      vary: answer.headers.get('vary')?.includes('accept-language'),
      heading: /<h1>([^<]+)<\/h1>/.exec(text)?.[1],
      button: /<button>([^<]+)<\/button>/.exec(text)?.[1],
      text,
    }
  }

  // Proves: contact-15, contact-16
  test("is the browser's in the email of a form and on the page of its link, and names are escaped", async () => {
    const { path } = await createForm('<b>Neues</b> {sender} "&')
    await post(path, { email: 'hans@receiver.test' }, 'de-AT, en;q=0.5')
    const mail = await findMail('hans@receiver.test')
    expect([mail.language, mail.subject]).toEqual([
      'de',
      'Bitte bestätigen Sie Ihre Anmeldung zu <b>Neues</b> {sender} "&',
    ])
    expect(mail.text).toContain('hans@receiver.test wurde für „<b>Neues</b> {sender} "&“ von sender.test angemeldet.')
    expect(mail.html).toContain('„<bdi>&lt;b&gt;Neues&lt;/b&gt; {sender} &quot;&amp;</bdi>“')
    expect(mail.html).not.toContain('<b>')
    const page = await open('GET', mail.path, 'pl, en;q=0.1')
    expect(page).toMatchObject({
      status: 200,
      language: ['pl', 'pl'],
      vary: true,
      heading: 'Potwierdzić subskrypcję?',
      button: 'Potwierdź',
    })
    expect(page.text).not.toContain('<b>')
    expect(await open('POST', mail.path, 'fr')).toMatchObject({
      language: ['fr', 'fr'],
      heading: 'Votre abonnement est confirmé',
    })
    expect(await open('GET', `${mail.path}x`, 'nl')).toMatchObject({
      status: 404,
      language: ['nl', 'nl'],
      heading: 'Deze link is niet volledig',
    })
  })

  test.each([
    ['the contact, before that of the browser', { language: 'pt_BR' }, 'de', 'pt'],
    ['the browser, if that of the contact is not translated', { language: 'sv' }, 'it', 'it'],
    ['English without either', {}, undefined, 'en'],
    ['English for a value that is no language', { language: '__proto__' }, 'xx', 'en'],
  ] as const)('is that of %s', async (name, fields, accepted, language) => {
    const { path } = await createForm(name)
    const address = `${name.replaceAll(/\W/g, '')}@receiver.test`
    await post(path, { email: address, ...fields }, accepted)
    expect((await findMail(address)).language).toBe(language)
  })

  test("of a contact added over the API is its metadata's, and values that are no text mean English", async () => {
    const list = await service.list()
    await service.add(list, { email: 'es@receiver.test', metadata: { language: 'es-MX' } })
    await service.add(list, { email: 'odd@receiver.test', metadata: { language: { de: true } } })
    expect((await findMail('es@receiver.test')).subject).toStartWith('Confirme su suscripción a ')
    expect((await findMail('odd@receiver.test')).language).toBe('en')
  })
})
