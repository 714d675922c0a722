import { expect, setDefaultTimeout, test } from 'bun:test'
import { createDataFolder, runTassisProcess, setUpAccount, startServing } from './process.ts'

setDefaultTimeout(300_000)

const TOKEN = 'server-token'
const template = (TemplateId: number, fields: Record<string, unknown>) => ({
  TemplateId,
  Active: true,
  TemplateType: 'Standard',
  Name: `Template ${TemplateId}`,
  Alias: null,
  Subject: 'Hello {{name}}',
  HtmlBody: null,
  TextBody: 'Hello.',
  LayoutTemplate: null,
  ...fields,
})
const TEMPLATES = [
  template(11, { Alias: 'order', HtmlBody: '{{#each items}}<b>{{title}}</b>{{/each}}', LayoutTemplate: 'base' }),
  template(12, { TemplateType: 'Layout', Alias: 'base', HtmlBody: '<main>{{{ @content }}}</main>' }),
  template(13, {}),
  template(14, { Alias: 'news', TextBody: 'Bye\n{{{ pm:unsubscribe }}}' }),
]

/** Answers like Postmark's API. */
const startPostmark = () =>
  Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      if (request.headers.get('x-postmark-server-token') !== TOKEN)
        return Response.json({ ErrorCode: 10, Message: 'No such server.' }, { status: 401 })
      const { pathname } = new URL(request.url)
      const id = Number(pathname.split('/')[2] ?? 0)
      return Response.json(
        id === 0 ? { TotalCount: 4, Templates: TEMPLATES } : TEMPLATES.find((t) => t.TemplateId === id),
      )
    },
  })

// Proves: operator-71
test('templates of Postmark are imported with their layouts and numbers; the rest is listed', async () => {
  using data = createDataFolder()
  await using postmark = startPostmark()
  const { key } = await setUpAccount(data.settings)
  const command = ['templates', 'import', '--from', 'postmark', '--url', postmark.url.href]
  const run = (token: string) => runTassisProcess(command, data.settings, `${token}\n`)
  expect(await run('wrong')).toMatchObject({
    exitCode: 1,
    stderr: 'tassis: Postmark, /templates, status 401: it does not accept the key.\n',
  })
  const imported = await run(TOKEN)
  expect(imported).toMatchObject({ exitCode: 1, stderr: '' })
  expect(imported.stdout).toMatch(
    /\nmade +template +order *\nmade +template +postmark-13 *\nrefused +template +news +text, line 2: \{\{\{ pm:unsubscribe \}\}\}: .*\n2 made, 0 exist, 1 refused/,
  )
  expect((await run(TOKEN)).stdout).toContain('0 made, 2 exist, 1 refused')
  await using service = await startServing(data.settings)
  const headers = { 'x-postmark-server-token': key }
  for (const by of ['11', 'order']) {
    const shown = await fetch(`${service.url}/postmark/templates/${by}`, { headers })
    expect(await shown.json()).toMatchObject({
      TemplateId: 11,
      Alias: 'order',
      Subject: "Hello {{ name|default('') }}",
      HtmlBody: "<main>{% for item in items|default([], true) %}<b>{{ item.title|default('') }}</b>{% endfor %}</main>",
    })
  }
})
