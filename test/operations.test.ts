/**
 * @module Runs every command of docs/operations.md, in the order of the page, in a shell and beside a service: an
 * upgrade, a rollback, a drill, a move. Folders of a server are folders of the test, and systemctl is the test itself.
 */
import { expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  createClient,
  createDataFolder,
  MAIN,
  type RunningService,
  type Settings,
  setUpAccount,
  startServing,
} from './app/process.ts'

const ROOT = join(import.meta.dir, '..')
const page = await Bun.file(join(ROOT, 'docs/operations.md')).text()

/** The `sh` blocks with the heading above each. */
const BLOCKS = page.split(/^## /m).flatMap((section) =>
  [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, commands = ''], i) => ({
    name: `${section.slice(0, section.indexOf('\n'))} ${i + 1}`,
    commands: commands
      .replace(/\s+# .*$/gm, '')
      .trim()
      .split('\n'),
  })),
)

/** Commands that warn by their exit code: in the test nothing can be reached, so the checks fail. */
const MAY_FAIL = /^tassis doctor$/

interface Server extends AsyncDisposable {
  readonly url: string
  run(command: string): Promise<{ exitCode: number; output: string }>
  /** Takes the data away, as on a new server. */
  replace(): void
}

/** A server whose data directory, backups, executable and root folder are in a folder of the test. */
async function createServer(): Promise<Server & { send(to: string): Promise<void> }> {
  const root = mkdtempSync(join(tmpdir(), 'tassis-operations-'))
  const data = join(root, 'var/lib/tassis')
  for (const folder of ['var/lib', 'mnt/backups', 'usr/local/bin', 'root', 'download'])
    mkdirSync(join(root, folder), { recursive: true })
  mkdirSync(data, { mode: 0o700 })
  const program = `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`
  for (const folder of ['usr/local/bin', 'download'])
    writeFileSync(join(root, folder, 'tassis'), program, { mode: 0o755 })
  using folder = createDataFolder()
  const settings: Settings = { ...folder.settings, TASSIS_DATA_DIR: data, TASSIS_LOG_LEVEL: 'error' }
  const { key } = await setUpAccount(settings, { verified: true })
  let service: (RunningService & { output(): string }) | undefined = await startServing(settings)
  let variables: Settings = {}

  const controlService = async (action: string) => {
    if (action !== 'start' && service) {
      service.signal('SIGTERM')
      expect(await service.exited).toBe(0)
      service = undefined
    }
    if (action !== 'stop') service = await startServing(settings)
  }
  const run: Server['run'] = async (command) => {
    const control = /^systemctl (start|stop|restart) tassis$/.exec(command)?.[1]
    if (control) {
      await controlService(control)
      return { exitCode: 0, output: '' }
    }
    // The user tassis does not exist here.
    const local = command
      .replaceAll(/(?<![\w.])\/(?=(?:var\/lib|mnt|usr\/local|root)\/)/g, `${root}/`)
      .replace(' --owner tassis --group tassis', '')
    await using shell = Bun.spawn(['sh', '-u', '-c', `${local}\ncode=$?; echo "\${BACKUP-}" >&3; exit $code`], {
      cwd: join(root, 'download'),
      env: {
        PATH: `${join(root, 'usr/local/bin')}:${process.env['PATH']}`,
        ...settings,
        ...(service && { TASSIS_HTTP_ADDR: new URL(service.url).host }),
        ...variables,
      },
      stdio: ['ignore', 'pipe', 'pipe', Bun.file(join(root, 'variables'))],
    })
    const [stdout, stderr, exitCode] = await Promise.all([shell.stdout.text(), shell.stderr.text(), shell.exited])
    variables = { BACKUP: (await Bun.file(join(root, 'variables')).text()).trim() }
    return { exitCode, output: stdout + stderr }
  }
  return {
    get url() {
      return service?.url ?? ''
    },
    run,
    async send(to) {
      const mail = { from: 'ada@sender.test', to, subject: 'Hello', text_body: 'Hello.' }
      const answer = await createClient(service?.url ?? '', key)('POST', '/v1/emails', mail)
      expect(answer.status).toBe(202)
    },
    replace: () => renameSync(data, `${data}.former`),
    async [Symbol.asyncDispose]() {
      await service?.[Symbol.asyncDispose]()
      rmSync(root, { recursive: true, force: true })
    },
  }
}

test('every command of docs/operations.md works, in its order', async () => {
  await using server = await createServer()
  await server.send('bob@example.net')
  const failed: unknown[] = []
  const outputs = new Map<string, string>()
  for (const { name, commands } of BLOCKS) {
    if (name === 'Move to another server 2') server.replace()
    for (const command of commands) {
      const { exitCode, output } = await server.run(command)
      if (exitCode !== 0 && !(exitCode === 1 && MAY_FAIL.test(command))) failed.push({ name, command, output })
      outputs.set(`${name}: ${command}`, output)
    }
  }
  expect(failed).toEqual([])
  // The email is found, survives the rollback and the move as restored, and is released at the end.
  expect(outputs.get('Something is wrong 1: tassis explain bob@example.net')).toContain('bob@example.net')
  expect(outputs.get('Rollback 2: tassis fence')).toContain('example.net')
  expect(outputs.get('Move to another server 2: tassis fence')).toContain('example.net')
  expect(outputs.get('Move to another server 2: tassis fence release --yes')).toMatch(/^Released: +1$/m)
}, 600_000)

test('the page has the sections that an operator looks for, and every alert', async () => {
  const headings = [...page.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)
  expect(headings).toEqual([
    'Something is wrong',
    'Upgrade',
    'Rollback',
    'Backup drill',
    'Move to another server',
    'Rotate keys',
    'Full disk',
    'Blocked address',
    'Alerts',
  ])
  const rules = await Bun.file(join(ROOT, 'contrib/prometheus/alerts.yml')).text()
  const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, alert = '']) => alert)
  const named = [...page.matchAll(/\[`(\w+)`\]\(metrics\.md#(\w+)\)/g)].map(([, alert = '', anchor = '']) => {
    expect(anchor).toBe(alert.toLowerCase())
    return alert
  })
  expect(named.sort()).toEqual(alerts.sort())
})
