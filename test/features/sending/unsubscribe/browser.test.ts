import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { Browser } from 'playwright-core'
import { TEXTS } from '#features/setup/wording/languages.ts'
import { drawLogo, putLogo } from '#test/features/setup/wording/logos.ts'
import {
  inspectOnScreens,
  isChromiumAvailable,
  NO_PROBLEMS,
  openPage,
  SCREENS,
  type Screen,
  startBrowser,
} from '#test/support/browser.ts'
import { createUnsubscribable, type Unsubscribable } from './fixture.ts'

// A browser starts slowly on a busy machine.
setDefaultTimeout(120_000)

const [PHONE] = SCREENS as [Screen]

describe.skipIf(!isChromiumAvailable())('in a browser without scripts', () => {
  let service: Unsubscribable
  let browser: Browser
  beforeAll(async () => {
    service = await createUnsubscribable()
    browser = await startBrowser()
  })
  afterAll(async () => {
    await browser?.close()
    await service?.[Symbol.asyncDispose]()
  })

  // Proves: suppress-15
  test('a person unsubscribes from a stream, then from all, and undoes both', async () => {
    const path = await service.link({ stream: 'news', to: 'reader@receiver.test' })
    await using opened = await openPage(browser, PHONE)
    const { page, requested, complaints } = opened
    const press = (name: string) => page.getByRole('button', { name, exact: true }).click()

    await page.goto(`${service.url}${path}`)
    expect(await inspectOnScreens(opened, '1-asks')).toEqual({
      ...NO_PROBLEMS,
      title: 'Unsubscribe',
      headings: ['Unsubscribe?', 'Or stop all such mail'],
      buttons: ['Unsubscribe', 'Unsubscribe from all'],
    })
    expect(service.suppressions()).toEqual([])

    await press('Unsubscribe')
    expect(await inspectOnScreens(opened, '2-stopped')).toEqual({
      ...NO_PROBLEMS,
      title: 'You are unsubscribed',
      headings: ['You are unsubscribed', 'Or stop all such mail', 'Was it a mistake?'],
      buttons: ['Unsubscribe from all', 'Subscribe again'],
    })
    expect(service.suppressions().map(({ stream }) => stream)).toEqual(['news'])

    await press('Unsubscribe from all')
    expect(await inspectOnScreens(opened, '3-all-stopped')).toEqual({
      ...NO_PROBLEMS,
      title: 'You are unsubscribed',
      headings: ['You are unsubscribed', 'Was it a mistake?'],
      buttons: ['Subscribe again'],
    })
    expect(service.suppressions().map(({ stream }) => stream)).toEqual(['news', null])

    await press('Subscribe again')
    await press('Subscribe again')
    expect(await inspectOnScreens(opened, '4-again')).toEqual({
      ...NO_PROBLEMS,
      title: 'You are subscribed again',
      headings: ['You are subscribed again', 'Changed your mind?', 'Or stop all such mail'],
      buttons: ['Unsubscribe', 'Unsubscribe from all'],
    })
    expect(service.suppressions()).toEqual([])
    expect(new Set(requested.map((url) => new URL(url).pathname))).toEqual(new Set([path]))
    expect(complaints).toEqual([])
  })

  // Proves: account-20
  test('own German texts and a logo fit and are readable', async () => {
    await putLogo(service, await drawLogo('png', 480, 192))
    const words = 'Verbraucherinformationsdienst-Abmeldebestätigungsverfahren'
    await service.api('PATCH', '/v1/account/wording', {
      name: 'Donaudampfschifffahrtsgesellschaft mbH & Co. KG',
      texts: {
        de: {
          unsubscribe_heading: `Möchten Sie ${words} wirklich verlassen?`,
          unsubscribe_text: `Schade!\n${'Wir hätten Ihnen gern weiter geschrieben. '.repeat(10)}${words}`,
          unsubscribe_button: 'Newsletter nicht mehr erhalten',
          unsubscribed_heading: 'Auf Wiedersehen',
          unsubscribed_text: 'Danke, dass Sie dabei waren.',
        },
      },
    })
    try {
      const path = await service.link({ stream: 'news', to: 'own@receiver.test' })
      await using opened = await openPage(browser, PHONE, 'de-DE')
      const { page, complaints } = opened
      await page.goto(`${service.url}${path}`)
      expect(await inspectOnScreens(opened, 'wording-unsubscribe')).toMatchObject({
        ...NO_PROBLEMS,
        language: 'de',
        buttons: ['Newsletter nicht mehr erhalten', expect.any(String)],
      })
      expect(await page.evaluate<number>('document.querySelector("img").naturalWidth')).toBe(480)
      await page.getByRole('button', { name: 'Newsletter nicht mehr erhalten' }).click()
      await page.getByRole('heading', { name: 'Auf Wiedersehen' }).waitFor()
      expect(await inspectOnScreens(opened, 'wording-unsubscribed')).toMatchObject({
        ...NO_PROBLEMS,
        language: 'de',
        title: 'Auf Wiedersehen',
      })
      // Other tests expect that nobody has unsubscribed.
      await page.getByRole('button', { name: TEXTS.de.unsubscribed_button, exact: true }).click()
      await page.getByRole('heading', { name: TEXTS.de.resubscribed_heading }).waitFor()
      expect(complaints).toEqual([])
    } finally {
      await service.api('DELETE', '/v1/account/wording')
    }
  })

  // Proves: suppress-15
  test('the page works by keyboard with a visible focus', async () => {
    const path = await service.link({ to: 'keys@receiver.test' })
    await using opened = await openPage(browser, PHONE)
    const { page, picture } = opened
    await page.goto(`${service.url}${path}`)
    const outline = () =>
      page.evaluate<string>(
        'getComputedStyle(document.querySelector("button")).outlineStyle + document.activeElement.tagName',
      )
    expect(await outline()).toBe('noneBODY')
    await page.keyboard.press('Tab')
    expect(await outline()).toBe('solidBUTTON')
    await picture('7-focus')
    await page.keyboard.press('Enter')
    await page.waitForURL(`**${path}`)
    await page.getByRole('heading', { name: 'You are unsubscribed' }).waitFor()
    await page.getByRole('button', { name: 'Subscribe again' }).press('Space')
    await page.getByRole('heading', { name: 'You are subscribed again' }).waitFor()
  })
})
