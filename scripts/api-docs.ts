/** @module Makes the files of /docs from the routes of a service without mail: the executable contains them. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openApp } from '#app/create.ts'
import { describeRoutes } from '#app/docs/documents.ts'
import { createRoutes } from '#app/http.ts'
import { loadConfig } from '#app/settings.ts'
import type { BuiltFile } from '#platform/http/built-files.ts'
import { createLog } from '#platform/log/log.ts'

/** They are the same whatever the settings and the machine. */
export async function makeApiDocs(): Promise<BuiltFile[]> {
  const dataDir = await mkdtemp(join(tmpdir(), 'tassis-docs-'))
  const { config } = loadConfig({ TASSIS_DATA_DIR: dataDir, TASSIS_DELIVERY: 'capture' })
  const opened = openApp(config, { log: createLog('silent') })
  try {
    return await describeRoutes(createRoutes(opened))
  } finally {
    await opened.close()
    await rm(dataDir, { recursive: true })
  }
}
