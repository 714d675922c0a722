import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { Browser, Page } from 'playwright-core'
import { TEXTS } from '#features/setup/wording/languages.ts'
import { days, hours } from '#platform/units.ts'
import { drawLogo, putLogo } from '#test/features/setup/wording/logos.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import {
  inspectOnScreens,
  inspectTextPage,
  isChromiumAvailable,
  NO_PROBLEMS,
  openPage,
  overflowPx,
  SCREENS,
  type Screen,
  showOn,
  startBrowser,
} from '#test/support/browser.ts'
import { type ConfirmingService, createConfirmingService, leave, PUBLIC_URL } from './confirmation-fixture.ts'

// A browser starts slowly on a busy machine.
setDefaultTimeout(120_000)

/** Whether the logo was loaded, and whether its proportions are wrong by more than rounding to pixels explains. */
const readPicture = (page: Page): Promise<unknown> =>
  page.evaluate<unknown>(
    `(({ complete, naturalWidth, naturalHeight, width, height }) => ({
      isLoaded: complete && naturalWidth > 0,
      isFlat: Math.abs(width / naturalWidth - height / naturalHeight) * naturalHeight > 1,
    }))(document.querySelector('img'))`,
  )

const [PHONE] = SCREENS as [Screen]

describe.skipIf(!isChromiumAvailable())('in a browser without scripts', () => {
  let service: ConfirmingService
  let browser: Browser
  beforeAll(async () => {
    service = await createConfirmingService()
    browser = await startBrowser()
  })
  afterAll(async () => {
    await browser?.close()
    await service?.[Symbol.asyncDispose]()
  })

  const asked = async (address: string, name: string) => {
    const list = await service.list({ name })
    await service.add(list, { email: address })
    return { list, path: await service.link(address) }
  }

  // Proves: contact-16
  test('a person confirms, and returns to the link', async () => {
    const { path } = await asked('ada@receiver.test', 'Weekly news')
    await using opened = await openPage(browser, PHONE)
    const { page, requested, complaints } = opened
    await page.goto(`${service.url}${path}`)
    expect(await inspectOnScreens(opened, 'confirm-1-asks')).toEqual({
      ...NO_PROBLEMS,
      title: 'Confirm your subscription',
      headings: ['Confirm your subscription?'],
      buttons: ['Confirm'],
    })
    await page.getByRole('button', { name: 'Confirm' }).click()
    await page.getByRole('heading', { name: 'Your subscription is confirmed' }).waitFor()
    expect(await inspectOnScreens(opened, 'confirm-2-confirmed')).toEqual({
      ...NO_PROBLEMS,
      title: 'Your subscription is confirmed',
      headings: ['Your subscription is confirmed'],
      buttons: [],
    })
    await page.goto(`${service.url}${path}`)
    expect(await inspectOnScreens(opened, 'confirm-3-already')).toEqual({
      ...NO_PROBLEMS,
      title: 'Your subscription was already confirmed',
      headings: ['Your subscription was already confirmed'],
      buttons: [],
    })
    expect(new Set(requested.map((url) => new URL(url).pathname))).toEqual(new Set([path]))
    expect(complaints).toEqual([])
  })

  // Proves: account-20
  test.each([
    ['wide', 480, 30],
    ['tall', 40, 192],
  ] as const)('the mail and its pages show own German texts and a %s logo', async (shape, width, height) => {
    const words = 'Verbraucherinformationsdienst-Abonnementbestätigungsverfahren'
    const button = `Ja, ${words.slice(0, 50)}`
    await putLogo(service, await drawLogo('png', width, height))
    await service.api('PATCH', '/v1/account/wording', {
      name: 'Donaudampfschifffahrtsgesellschaft mbH & Co. KG',
      texts: {
        de: {
          mail_intro: `Guten Tag,\n${words} ${words}`,
          mail_button: button,
          mail_footer: `Donaudampfschifffahrtsgesellschaft mbH\nHauptstraße 1, 94032 Passau\n${words}`,
          confirm_heading: `Nur noch ein Klick: ${words}`,
          confirm_text: `Schön, dass Sie „{{list}}“ von {{name}} lesen möchten.\n\n${'Lesen Sie mit. '.repeat(20)}`,
          confirm_button: button,
          confirmed_text: 'Herzlich willkommen!',
        },
      },
    })
    try {
      const list = await service.list({ name: `Kunden ${shape}` })
      await service.add(list, { email: `${shape}@receiver.test`, metadata: { language: 'de' } })
      const mail = await eventually(async () => {
        const [row] = at((await service.api('GET', '/v1/emails')).body, 'data') as {
          id: string
          to_address: unknown
        }[]
        return row && JSON.stringify(row.to_address).includes(shape) ? service.detail(row.id) : undefined
      })
      await using opened = await openPage(browser, PHONE, 'de-DE')
      const { page, complaints, picture } = opened
      await page.route(`${PUBLIC_URL}/**`, (route) =>
        route.fulfill({ status: 302, headers: { location: route.request().url().replace(PUBLIC_URL, service.url) } }),
      )
      await page.setContent(String(mail['html_body']))
      await picture(`wording-mail-${shape}`)
      expect(await readPicture(page)).toEqual({ isLoaded: true, isFlat: false })
      for (const screen of SCREENS) {
        await showOn(page, screen)
        expect([screen.name, await overflowPx(page)]).toEqual([screen.name, 0])
      }
      const path = /\/confirm\/[\w-]+/.exec(String(mail['text_body']))?.[0] ?? ''
      await page.goto(`${service.url}${path}`)
      expect(await readPicture(page)).toEqual({ isLoaded: true, isFlat: false })
      expect(await inspectOnScreens(opened, `wording-confirm-${shape}`)).toEqual({
        ...NO_PROBLEMS,
        language: 'de',
        title: 'Anmeldung bestätigen',
        headings: [`Nur noch ein Klick: ${words}`],
        buttons: [button],
      })
      await page.getByRole('button').click()
      await page.getByText('Herzlich willkommen!').waitFor()
      await picture(`wording-confirmed-${shape}`)
      expect(complaints).toEqual([])
    } finally {
      await service.api('DELETE', '/v1/account/wording')
    }
  })

  test('invalid links and the longest names fit the screen and are readable', async () => {
    const name = `${'W'.repeat(100)} ${'<b>&"\u202e'.repeat(8)}`
    const long = `${'a'.repeat(64)}@${'b'.repeat(50)}.${'c'.repeat(60)}.test`
    const { path, list } = await asked(long, name)
    await service.api('POST', '/v1/signup-forms', { list_id: list, title: 'Join' })
    await using opened = await openPage(browser, PHONE)
    const { page, complaints } = opened
    const see = async (picturedAs: string, at: string, title: string, buttons: string[] = []) => {
      await page.goto(`${service.url}${at}`)
      const heading = buttons.length > 0 ? `${title}?` : title
      const seen = await inspectOnScreens(opened, `confirm-${picturedAs}`)
      expect(seen).toEqual({ ...NO_PROBLEMS, title, headings: [heading], buttons })
    }
    await see('4-longest', path, 'Confirm your subscription', ['Confirm'])
    service.clock.advance(hours(1))
    await service.api('POST', `/v1/contact-lists/${list}/contacts/${encodeURIComponent(long)}/confirmation`)
    const newest = await service.link(long, 2)
    await see('5-replaced', path, 'There is a newer link')
    service.clock.advance(days(8))
    await see('6-expired', newest, 'This link has expired')
    expect(await page.getByRole('link').getAttribute('href')).toMatch(/\/subscribe\/[\w-]+$/)
    await leave(service, list, long)
    await see('7-refused', newest, 'This link is no longer valid')
    await see('8-damaged', path.slice(0, -1), 'This link is incomplete')
    await service.api('DELETE', `/v1/contact-lists/${list}`)
    await see('9-gone', path, 'There is nothing left to confirm')
    expect(complaints.filter((text) => !/status of 4(04|10)/.test(text))).toEqual([])
  })

  test('every language fits a narrow screen with large text', async () => {
    const { path } = await asked('languages@receiver.test', 'Languages')
    const narrow = { name: 'narrow', width: 320, height: 640, colours: 'light' } as const
    for (const [language, texts] of Object.entries(TEXTS)) {
      await using opened = await openPage(browser, narrow, language)
      const { page, picture } = opened
      await page.goto(`${service.url}${path}`)
      await page.evaluate('document.documentElement.style.fontSize = "36px"')
      await picture(`confirm-11-${language}`)
      expect(await inspectTextPage(page)).toMatchObject({
        language,
        title: texts.confirm_title,
        headings: [texts.confirm_heading],
        buttons: [texts.confirm_button],
        overflowPx: 0,
      })
    }
  })
})
