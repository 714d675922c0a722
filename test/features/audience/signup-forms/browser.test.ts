import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { Browser, FrameLocator, Page } from 'playwright-core'
import {
  isChromiumAvailable,
  narrowOverflowPx,
  type OpenPage,
  openPage,
  overflowPx,
  SCREENS,
  type Screen,
  seenTexts,
  showOn,
  startBrowser,
} from '#test/support/browser.ts'
import { createFormApi, type FormApi } from './fixture.ts'

// A browser starts slowly on a busy machine.
setDefaultTimeout(120_000)

/** WCAG 2.2 §1.4.3 for text, §1.4.11 for the borders of fields, §2.5.5 for buttons. */
const MIN_CONTRAST = 4.5
const MIN_BORDER_CONTRAST = 3
const MIN_TARGET_PX = 44

// Runs in the page. A field hidden from everyone does not count.
const FIELDS = `[...document.querySelectorAll('input, textarea')].filter((e) => !e.closest('[aria-hidden]'))`
const UNLABELLED = `${FIELDS}.filter((e) => e.labels.length !== 1 || e.labels[0].innerText.trim() === '').map((e) => e.name)`
const TWICE = `[...document.querySelectorAll('[id]')].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i)`
/** Problems that are not tied to their field, and ties to missing elements. */
const UNASSOCIATED = `[
  ...[...document.querySelectorAll('.fault')].filter((e) => !document.querySelector('[aria-invalid=true][aria-describedby="' + e.id + '"]')),
  ...[...document.querySelectorAll('[aria-describedby]')].filter((e) => !document.getElementById(e.getAttribute('aria-describedby'))),
  ...[...document.querySelectorAll('[role=alert] a')].filter((e) => !document.querySelector(e.getAttribute('href'))),
].length`
const SMALL = `[...${FIELDS}.map((e) => (e.type === 'checkbox' ? e.labels[0] : e)), ...document.querySelectorAll('button')]
  .filter((e) => e.getBoundingClientRect().height < ${MIN_TARGET_PX} || e.getBoundingClientRect().width < ${MIN_TARGET_PX}).length`
const BORDERS = `${FIELDS}.filter((e) => e.type !== 'checkbox').map((e) => [getComputedStyle(e).borderTopColor, getComputedStyle(e).backgroundColor])`
/** The focus outline, and its background. */
const OUTLINE = `({
  outline: getComputedStyle(document.activeElement).outlineColor,
  behind: getComputedStyle(document.querySelector('main')).backgroundColor,
})`
/** Whether the field that only bots fill in takes space, can be reached by Tab, or is read out. */
const TRAP = `(() => {
  const trap = document.querySelector('[name=homepage-url]')
  const { width, height } = trap.parentElement.getBoundingClientRect()
  return { size: [width, height], tabIndex: trap.tabIndex, autocomplete: trap.autocomplete, isSilent: trap.closest('[aria-hidden=true]') !== null }
})()`

const luminance = (colour: string): number => {
  const [r = 0, g = 0, b = 0] = (colour.match(/[\d.]+/g) ?? [])
    .map(Number)
    .map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
const readContrast = ([one, other]: readonly [string, string]): number => {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a)
  return (light + 0.05) / (dark + 0.05)
}

/** Requirements for every page, for sight and for motor control. */
async function inspectPage(page: Page) {
  const borders = await page.evaluate<[string, string][]>(BORDERS)
  return {
    title: await page.title(),
    language: await page.locator('html').getAttribute('lang'),
    headings: await page.getByRole('heading').allTextContents(),
    overflowPx: await overflowPx(page),
    faint: (await seenTexts(page)).filter(({ contrast }) => contrast < MIN_CONTRAST),
    faintBorders: borders.filter((pair) => readContrast(pair) < MIN_BORDER_CONTRAST),
    unlabelled: await page.evaluate<string[]>(UNLABELLED),
    twice: await page.evaluate<string[]>(TWICE),
    untied: await page.evaluate<number>(UNASSOCIATED),
    small: await page.evaluate<number>(SMALL),
  }
}
const WELL = {
  title: 'Our newsletter',
  language: 'en',
  headings: ['Our newsletter'],
  overflowPx: 0,
  faint: [],
  faintBorders: [],
  unlabelled: [],
  twice: [],
  untied: 0,
  small: 0,
}

type PageLook = Awaited<ReturnType<typeof inspectPage>>
const repeatForScreens = (looks: PageLook): PageLook[] => SCREENS.map(() => looks)

/** The same page on all screens, one after another. */
async function inspectAll({ page, picture }: OpenPage, name: string): Promise<PageLook[]> {
  const looks: PageLook[] = []
  for (const screen of SCREENS) {
    await showOn(page, screen)
    await picture(`${name}-on-${screen.name}`)
    looks.push(await inspectPage(page))
  }
  expect([name, await narrowOverflowPx(page, () => picture(`${name}-on-narrow`))]).toEqual([name, 0])
  await showOn(page, SCREENS[0] as Screen)
  return looks
}

const FIELD_KINDS = [
  { name: 'first_name', label: 'First name', type: 'text', required: true },
  { name: 'about', label: 'What do you want to read about?', type: 'textarea' },
  { name: 'born', label: 'Birthday', type: 'date' },
  { name: 'offers', label: 'Tell me of offers too', type: 'checkbox' },
  { name: 'terms', label: 'I have read the terms and agree to them', type: 'checkbox', required: true },
]

/** A page of another site. */
function serveForeign(html: () => string) {
  return Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: (request) => {
      const { pathname } = new URL(request.url)
      if (pathname === '/away') return Response.redirect('/thanks', 302)
      const text = pathname === '/thanks' ? '<h1>Thanks from the shop</h1>' : html()
      return new Response(`<!doctype html><title>A shop</title>${text}`, { headers: { 'content-type': 'text/html' } })
    },
  })
}

describe.skipIf(!isChromiumAvailable())('in a browser', () => {
  let service: FormApi
  let browser: Browser
  beforeAll(async () => {
    service = await createFormApi()
    browser = await startBrowser()
  })
  afterAll(async () => {
    await browser?.close()
    await service?.[Symbol.asyncDispose]()
  })
  const contactOf = (email: string) => service.contacts().find((contact) => contact.email === email)

  const [PHONE, , DESKTOP, DESKTOP_DARK] = SCREENS as [Screen, Screen, Screen, Screen]

  describe('on every screen', () => {
    // Proves: form-10
    test('a person signs up with only an address, after an invalid one', async () => {
      const { path } = await service.form({ description: 'Once a month, and never more.\nYou can leave at any time.' })
      const email = 'plain@reader.test'
      await using opened = await openPage(browser, PHONE)
      const { page, requested, complaints } = opened
      await page.goto(service.url + path)
      expect(await inspectAll(opened, '1-empty')).toEqual(repeatForScreens(WELL))
      expect(await page.evaluate(TRAP)).toEqual({ size: [1, 1], tabIndex: -1, autocomplete: 'off', isSilent: true })
      const address = page.getByLabel('Email address')
      expect([await address.getAttribute('autocomplete'), await address.getAttribute('inputmode')]).toEqual([
        'email',
        'email',
      ])

      // Browsers accept it as an address.
      await address.fill('ada@reader')
      await page.getByRole('button', { name: 'Subscribe' }).click()
      await page.getByRole('alert').waitFor()
      expect(await inspectAll(opened, '2-wrong')).toEqual(repeatForScreens(WELL))
      expect(await page.getByRole('alert').textContent()).toBe('Enter an email address such as name@example.com.')
      expect(await address.inputValue()).toBe('ada@reader')
      expect(await page.evaluate('document.activeElement.name')).toBe('email')

      await address.fill(email)
      await page.getByRole('button', { name: 'Subscribe' }).click()
      await page.getByRole('status').waitFor()
      expect(await inspectAll(opened, '3-done')).toEqual(repeatForScreens(WELL))
      expect(await page.getByRole('status').textContent()).toBe('You are subscribed.')
      expect(contactOf(email)).toEqual({ email, status: 0, metadata: null })
      expect(new Set(requested.map((url) => new URL(url).pathname))).toEqual(new Set([path]))
      // The 422, which a browser logs itself.
      expect(complaints.filter((text) => !text.includes('422'))).toEqual([])
    })

    // Proves: form-14
    test('a person fills in every kind of field, and valid values stay after invalid ones', async () => {
      const { path } = await service.form({
        custom_fields: FIELD_KINDS,
        list_id: service.list({ doubleOptIn: true }),
      })
      const email = 'fields@reader.test'
      await using opened = await openPage(browser, PHONE)
      const { page, picture } = opened
      await page.goto(service.url + path)
      expect(await inspectAll(opened, '4-fields')).toEqual(repeatForScreens(WELL))
      await page.getByLabel('Email address').fill(email)
      // A browser accepts a space as a value.
      await page.getByLabel('First name').fill(' ')
      await page.getByLabel('What do you want to read about?').fill('Engines\nand numbers')
      await page.getByLabel('Birthday').fill('1815-12-10')
      await page.getByLabel('Tell me of offers too').check()
      await page.getByLabel('I have read the terms').check()
      await page.getByRole('button', { name: 'Subscribe' }).click()
      await page.getByRole('alert').waitFor()
      expect(await inspectAll(opened, '5-fields-wrong')).toEqual(repeatForScreens(WELL))
      const name = page.getByLabel('First name')
      expect(await page.evaluate('document.activeElement.name')).toBe('first_name')
      await page.getByRole('alert').getByRole('link').click()
      await name.fill('Ada')
      await page.getByRole('button', { name: 'Subscribe' }).click()
      await page.getByRole('status').waitFor()
      await picture('6-asked')
      expect(await page.getByRole('status').textContent()).toBe(
        'Please confirm your subscription: we are sending you a message with a link.',
      )
      expect(contactOf(email)).toEqual({
        email,
        status: 1,
        metadata: { first_name: 'Ada', about: 'Engines\nand numbers', born: '1815-12-10', offers: true, terms: true },
      })
    })

    test('the longest texts, and an unknown form, fit the screen and are readable', async () => {
      const { path } = await service.form({
        title: 'Donaudampfschifffahrtsgesellschaft'.repeat(5),
        description: 'x'.repeat(2000),
        messages: { submit_button: 'Abonnieren'.repeat(40), email_label: 'E-Mail'.repeat(50) },
        custom_fields: [{ name: 'terms', label: 'Geschäftsbedingungen'.repeat(10), type: 'checkbox' }],
      })
      await using opened = await openPage(browser, PHONE)
      const { page } = opened
      await page.goto(service.url + path)
      expect(await inspectAll(opened, '7-long')).toEqual(
        repeatForScreens({ ...WELL, title: expect.any(String), headings: [expect.any(String)] }),
      )
      await page.goto(`${service.url}/subscribe/none`)
      expect(await inspectAll(opened, '8-none')).toEqual(
        repeatForScreens({ ...WELL, title: 'This form is not available', headings: ['This form is not available'] }),
      )
    })
  })

  describe('a theme', () => {
    test('of a few colours gets readable others, by day and by night', async () => {
      await using opened = await openPage(browser, DESKTOP)
      const { page, picture } = opened
      for (const [name, theme] of Object.entries({
        'dark background': { bg_color: '#102030' },
        'middle background': { bg_color: 'rgb(120 120 120)' },
        'light text': { text_color: 'ivory' },
        button: { button_color: 'gold' },
        accent: { accent_color: '#7b1fa2', border_radius: 0 },
        'bright background': { bg_color: '#fffbe6', font_family: 'Georgia, serif', border_radius: '1.5rem' },
      })) {
        const { path } = await service.form({ theme, custom_fields: FIELD_KINDS })
        await page.goto(service.url + path)
        await page.getByLabel('Email address').fill('ada@reader')
        await page.getByLabel('First name').fill('Ada')
        await page.getByLabel('I have read the terms').check()
        await page.getByRole('button', { name: 'Subscribe' }).click()
        await page.getByRole('alert').waitFor()
        for (const screen of [DESKTOP, DESKTOP_DARK]) {
          await showOn(page, screen)
          await picture(`theme-${name.replaceAll(' ', '-')}-on-${screen.name}`)
          const { faint, faintBorders, overflowPx } = await inspectPage(page)
          const { outline, behind } = await page.evaluate<{ outline: string; behind: string }>(OUTLINE)
          const isFocusSeen = readContrast([outline, behind]) >= MIN_BORDER_CONTRAST
          const expected = { name, faint: [], faintBorders: [], overflowPx: 0, isFocusSeen: true }
          expect({ name, faint, faintBorders, overflowPx, isFocusSeen }).toEqual(expected)
        }
      }
    })

    // Proves: form-8
    test('that is ugly is shown as configured', async () => {
      const theme = {
        bg_color: 'lime',
        text_color: 'magenta',
        button_color: 'hsl(60, 100%, 50%)',
        button_text_color: '#ff0000',
        border_color: 'rgb(0, 0, 255)',
        accent_color: 'orange',
        border_radius: '50%',
        font_family: '"Comic Sans MS", cursive',
        hide_branding: true,
      }
      const { path } = await service.form({ theme, custom_fields: FIELD_KINDS })
      for (const screen of [PHONE, DESKTOP_DARK]) {
        await using opened = await openPage(browser, screen)
        const { page, picture } = opened
        await page.goto(service.url + path)
        await picture('theme-ugly')
        const style = (selector: string, property: string) =>
          page.evaluate<string>(`getComputedStyle(document.querySelector('${selector}')).${property}`)
        expect({
          background: await style('main', 'backgroundColor'),
          text: await style('h1', 'color'),
          button: await style('button', 'backgroundColor'),
          buttonText: await style('button', 'color'),
          border: await style('input', 'borderTopColor'),
          radius: await style('button', 'borderTopLeftRadius'),
          font: await style('h1', 'fontFamily'),
          tick: await style('.tick input', 'accentColor'),
          branding: await page.getByText('Tassis').count(),
        }).toEqual({
          background: 'rgb(0, 255, 0)',
          text: 'rgb(255, 0, 255)',
          button: 'rgb(255, 255, 0)',
          buttonText: 'rgb(255, 0, 0)',
          border: 'rgb(0, 0, 255)',
          radius: '50%',
          font: '"Comic Sans MS", cursive',
          tick: 'rgb(255, 165, 0)',
          branding: 0,
        })
      }
    })
  })

  test('the page works with the keyboard alone, and shows the focus', async () => {
    const { path } = await service.form({ custom_fields: FIELD_KINDS })
    await using opened = await openPage(browser, PHONE)
    const { page, picture } = opened
    await page.goto(service.url + path)
    const focused = () =>
      page.evaluate<string[]>(
        '[document.activeElement.name || document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]',
      )
    const stops: string[][] = []
    const press = async (key: string) => {
      await page.keyboard.press(key)
      stops.push(await focused())
    }
    const email = 'keys@reader.test'
    await press('Tab')
    await page.keyboard.type(email)
    await press('Tab')
    await page.keyboard.type('Ada')
    await picture('9-focus')
    await press('Tab')
    // A date has a stop for each of its parts.
    for (const _ of ['day', 'month', 'year', 'calendar']) await press('Tab')
    await press('Tab')
    await press('Tab')
    await page.keyboard.press('Space')
    await press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('status').waitFor()
    expect(stops.map(([name]) => name)).toEqual([
      'email',
      'first_name',
      'about',
      ...Array(4).fill('born'),
      'offers',
      'terms',
      'BUTTON',
    ])
    expect(new Set(stops.filter(([name]) => name !== 'born').map(([, outline]) => outline))).toEqual(new Set(['solid']))
    expect(contactOf(email)?.metadata).toEqual({ first_name: 'Ada', offers: false, terms: true })
  })

  describe('in the page of another site', () => {
    const embedded = async (fields: Record<string, unknown>) => {
      const { embed_code, path } = await service.form(fields)
      const code = String(embed_code).replace('https://mail.tassis.test', service.url)
      expect(code).toContain(`${service.url}${path}?embed=1`)
      return code
    }

    // Proves: form-10
    test('the form signs up within its frame, and the page stays', async () => {
      const code = await embedded({ description: 'Once a month.', custom_fields: FIELD_KINDS.slice(0, 1) })
      const foreign = serveForeign(() => `<h1>A shop</h1><p>Buy things.</p>${code}<p>Imprint</p>`)
      try {
        await using opened = await openPage(browser, PHONE)
        const { page, complaints, picture } = opened
        await page.goto(foreign.url.href)
        const frame: FrameLocator = page.frameLocator('iframe')
        const email = 'framed@reader.test'
        await frame.getByLabel('Email address').fill('ada@reader')
        await frame.getByLabel('First name').fill('Ada')
        await picture('embed-1-filled')
        const [outer, inner] = page.frames()
        const hasRoom = async () =>
          (await inner?.evaluate<number>('document.documentElement.scrollHeight')) ===
          (await outer?.evaluate<number>('document.querySelector("iframe").clientHeight'))
        expect(await hasRoom()).toBe(true)
        await frame.getByRole('button', { name: 'Subscribe' }).click()
        await frame.getByRole('alert').waitFor()
        await picture('embed-2-wrong')
        expect(await frame.getByRole('alert').textContent()).toBe('Enter an email address such as name@example.com.')
        expect(await hasRoom()).toBe(true)
        await frame.getByLabel('Email address').fill(email)
        await frame.getByRole('button', { name: 'Subscribe' }).click()
        await frame.getByRole('status').waitFor()
        await picture('embed-3-done')
        expect(await frame.getByRole('status').textContent()).toBe('You are subscribed.')
        expect([page.url(), contactOf(email)?.metadata]).toEqual([foreign.url.href, { first_name: 'Ada' }])
        expect(complaints.filter((text) => !text.includes('422'))).toEqual([])
      } finally {
        await foreign.stop(true)
      }
    })

    test.each([
      ['a short form', 'top', {}],
      ['a short form', 'bottom', {}],
      ['a form that is higher than the window', 'bottom', { custom_fields: FIELD_KINDS }],
    ] as const)(
      'the result of %s is visible where its button was pressed, at the %s of the window',
      async (...given) => {
        const [name, edge, fields] = given
        const list_id = service.list({ doubleOptIn: true })
        const code = await embedded({
          ...fields,
          list_id,
          description: 'Once a month.',
          redirect_url: 'https://shop.test/',
        })
        const far = '<p style="height: 3000px">Buy things.</p>'
        const foreign = serveForeign(() => `<meta name="viewport" content="width=device-width">${far}${code}${far}`)
        try {
          for (const screen of [PHONE, DESKTOP]) {
            await using opened = await openPage(browser, screen)
            const { page, picture } = opened
            const frame = page.frameLocator('iframe')
            const button = frame.getByRole('button', { name: 'Subscribe' })
            const email = frame.getByLabel('Email address')
            /** Presses the button at the edge of the window; returns what is visible of the result. */
            const press = async (role: 'alert' | 'status') => {
              await button.scrollIntoViewIfNeeded()
              const before = await button.boundingBox()
              if (!before) throw new Error('there is no button')
              const by = edge === 'top' ? before.y : before.y + before.height - screen.height
              await page.evaluate(`scrollBy(0, ${by})`)
              const scrolled = await page.evaluate<number>('scrollY')
              await button.click()
              const answer = frame.getByRole(role)
              await answer.waitFor()
              const box = await answer.boundingBox()
              await picture(`embed-5-${role}-${edge}-${name.length}`)
              if (!box) throw new Error('there is no answer')
              // At the lower edge its first line is enough.
              const LINE_PX = 24
              return {
                // A window scrolls by whole pixels, and boxes have fractions.
                isSeen: Math.round(box.y) >= 0 && box.y + LINE_PX <= screen.height,
                isPageWhereItWas: (await page.evaluate<number>('scrollY')) === scrolled,
              }
            }
            const SEEN = { isSeen: true, isPageWhereItWas: true }
            const fill = async (address: string) => {
              await page.goto(foreign.url.href)
              await email.fill(address)
              if (!('custom_fields' in fields)) return
              await frame.getByLabel('First name').fill('Ada')
              await frame.getByLabel('I have read the terms').check()
            }
            await fill('ada@reader')
            expect(await press('alert')).toEqual(SEEN)
            await fill(`seen-${screen.name}-${edge}-${name.length}@reader.test`)
            expect(await press('status')).toEqual(SEEN)
            // The submitted values stay readable, and cannot be sent again.
            expect([await button.count(), await email.isDisabled()]).toEqual([0, true])
            const paper = await frame.locator('main').boundingBox()
            const room = await page.locator('iframe').boundingBox()
            expect((paper?.x ?? 0) + (paper?.width ?? 0) / 2).toBe((room?.x ?? -1) + (room?.width ?? 0) / 2)
          }
        } finally {
          await foreign.stop(true)
        }
      },
    )

    test('a form with redirect_url offers a link, which redirects the whole page', async () => {
      const shop = serveForeign(() => '')
      const code = await embedded({ redirect_url: `${shop.url.href}away` })
      const foreign = serveForeign(() => code)
      try {
        await using opened = await openPage(browser, DESKTOP)
        const { page, picture } = opened
        await page.goto(foreign.url.href)
        const frame = page.frameLocator('iframe')
        await frame.getByLabel('Email address').fill('led@reader.test')
        await frame.getByRole('button', { name: 'Subscribe' }).click()
        const link = frame.getByRole('link', { name: `Continue to ${shop.url.host}` })
        await link.waitFor()
        await picture('embed-4-continue')
        await link.click()
        await page.getByRole('heading', { name: 'Thanks from the shop' }).waitFor()
        expect(page.url()).toBe(`${shop.url.href}thanks`)
      } finally {
        await Promise.all([foreign.stop(true), shop.stop(true)])
      }
    })

    test('the page itself is not shown in a frame', async () => {
      const { path } = await service.form()
      const foreign = serveForeign(() => `<iframe src="${service.url}${path}"></iframe>`)
      try {
        await using opened = await openPage(browser, DESKTOP)
        const { page, complaints } = opened
        await page.goto(foreign.url.href)
        expect(await page.frameLocator('iframe').getByLabel('Email address').count()).toBe(0)
        expect(complaints.join()).toContain('frame-ancestors')
      } finally {
        await foreign.stop(true)
      }
    })

    test('a script of its own may post JSON and read the response', async () => {
      const { path } = await service.form()
      const foreign = serveForeign(() => '<h1>A shop</h1>')
      const context = await browser.newContext()
      try {
        const page = await context.newPage()
        await page.goto(foreign.url.href)
        const post = (email: string) =>
          page.evaluate(`(async () => {
            const headers = { 'content-type': 'application/json' }
            const answer = await fetch('${service.url}${path}', { method: 'POST', headers, body: JSON.stringify({ email: '${email}' }) })
            return [answer.status, (await answer.json()).message]
          })()`)
        expect([await post('script@reader.test'), await post('script@reader')]).toEqual([
          [200, 'You are subscribed.'],
          [422, 'Enter an email address such as name@example.com.'],
        ])
      } finally {
        await context.close()
        await foreign.stop(true)
      }
    })
  })

  test('redirect_url redirects the visitor, also over further redirects', async () => {
    const shop = serveForeign(() => '')
    try {
      const { path } = await service.form({ redirect_url: `${shop.url.href}away` })
      await using opened = await openPage(browser, DESKTOP)
      const { page, complaints } = opened
      await page.goto(service.url + path)
      await page.getByLabel('Email address').fill('away@reader.test')
      await page.getByRole('button', { name: 'Subscribe' }).click()
      await page.getByRole('heading', { name: 'Thanks from the shop' }).waitFor()
      expect([page.url(), complaints]).toEqual([`${shop.url.href}thanks`, []])
    } finally {
      await shop.stop(true)
    }
  })

  // Proves: form-10
  test('no text of an account or a visitor becomes markup, also in a browser that runs scripts and ignores the policy', async () => {
    const evils = [
      // For texts, values in either quotation mark, and elements of raw text.
      `</textarea></title></style><script>evil()</script><img src=x onerror=evil()>" autofocus onfocus="evil()' onmouseover='evil()`,
      'javascript:evil()',
      '{{constructor.constructor("evil()")()}}',
    ]
    const context = await browser.newContext({ bypassCSP: true })
    try {
      const page = await context.newPage()
      await page.addInitScript('globalThis.evils = 0; globalThis.evil = () => { globalThis.evils++ }')
      const dialogs: string[] = []
      page.on('dialog', (dialog) => void dialogs.push(dialog.message()))
      for (const evil of evils) {
        const { path, embed_code } = await service.form({
          title: evil,
          description: evil,
          success_message: evil,
          messages: {
            submit_button: evil,
            email_label: evil,
            email_placeholder: evil,
            already_subscribed: evil,
            confirmation_sent: evil,
            invalid_email: evil,
          },
          custom_fields: [
            { name: 'one', label: evil, type: 'text' },
            { name: 'more', label: evil, type: 'textarea' },
            { name: 'tick', label: evil, type: 'checkbox' },
          ],
        })
        const isClean = async () => {
          expect(await page.evaluate('[globalThis.evils, document.scripts.length, document.images.length]')).toEqual([
            0, 0, 0,
          ])
          expect(
            await page.evaluate(
              `[...document.querySelectorAll('*')].flatMap((e) => [...e.attributes]).filter((a) => /^on/.test(a.name) || /^javascript:/i.test(a.value) && /href|src|action/.test(a.name)).map((a) => a.name)`,
            ),
          ).toEqual([])
          expect(await page.title()).toBe(evil)
          expect(await page.getByRole('heading').allTextContents()).toEqual([evil])
        }
        await page.goto(service.url + path)
        await isClean()
        expect(await page.getByRole('button').textContent()).toBe(evil)
        await page.evaluate('document.querySelector("form").noValidate = true')
        await page.locator('[name=email]').fill(evil)
        await page.locator('[name=one]').fill(evil)
        await page.locator('[name=more]').fill(evil)
        await page.getByRole('button').click()
        await page.getByRole('alert').waitFor()
        await isClean()
        expect(await page.getByRole('alert').textContent()).toBe(evil)
        for (const name of ['email', 'one', 'more'])
          expect(await page.locator(`[name=${name}]`).inputValue()).toBe(evil)
        await page.locator('[name=email]').fill('evil@reader.test')
        await page.getByRole('button').click()
        await page.getByRole('status').waitFor()
        await isClean()
        expect(await page.getByRole('status').textContent()).toBe(evil)
        await page.setContent(String(embed_code).replace(/src="[^"]*"/, ''))
        expect(await page.evaluate('document.querySelector("iframe").title')).toBe(evil)
        expect(await page.evaluate('document.body.children.length')).toBe(1)
      }
      expect(dialogs).toEqual([])
    } finally {
      await context.close()
    }
  })
})
