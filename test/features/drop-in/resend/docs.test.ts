/** @module Runs the example of docs/resend.md as its reader does: only the two variables are set. */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createEmailApi } from '#test/support/email-api.ts'

const ROOT = join(import.meta.dir, '../../../..')

test('the example of docs/resend.md sends, with nothing but the two variables', async () => {
  const page = await Bun.file(join(ROOT, 'docs/resend.md')).text()
  const code = /^<!-- example: resend\.ts -->\n```ts\n(.*?)^```$/ms.exec(page)?.[1] ?? ''
  await using service = await createEmailApi()
  await service.addDomain(service.actor, 'example.com')
  const folder = mkdtempSync(join(tmpdir(), 'tassis-test-'))
  try {
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    writeFileSync(join(folder, 'resend.ts'), code)
    const program = Bun.spawn([process.execPath, 'resend.ts'], {
      cwd: folder,
      env: { ...process.env, RESEND_BASE_URL: `${service.url}/resend`, RESEND_API_KEY: service.key },
      stdout: 'pipe',
    })
    const id = (await new Response(program.stdout).text()).trim()
    expect(await service.detail(id)).toMatchObject({ from_address: 'Ada <ada@example.com>', to: 'bob@example.net' })
  } finally {
    rmSync(folder, { recursive: true })
  }
})
