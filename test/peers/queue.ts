/** @module Data directories of the comparison: an account with a domain and a key, and a queue that is due. */
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { seedDataDirectory } from '#bench/seed.ts'
import { statusCode } from '#features/sending/queue/status.ts'

const configOf = (dataDir: string) =>
  loadConfig({ TASSIS_DATA_DIR: dataDir, TASSIS_HOSTNAME: 'mail.bench.test', TASSIS_LOG_LEVEL: 'error' }).config

/** Creates a data directory without emails; returns the API key. */
export const createData = (dataDir: string): Promise<string> => seedDataDirectory(configOf(dataDir), 0)

/**
 * Creates a data directory with emails that are due, to domains that take turns; returns the API key. They are the sent
 * emails of `tassis bench`, queued again: their events and counters stay, since delivery does not read them.
 */
export async function fillQueue(dataDir: string, emails: number, domains: number): Promise<string> {
  const key = await seedDataDirectory(configOf(dataDir), emails)
  const opened = openApp(configOf(dataDir))
  try {
    await opened.app.commit.write(({ db }) => {
      db.run('UPDATE emails SET status = ?, delivered_at = NULL', [statusCode('queued')])
      if (domains > 1)
        db.run(`UPDATE recipients SET address = replace(address, '@', printf('@d%010d.', id % ?))`, [domains])
      db.run(
        `UPDATE recipients SET status = ?1, attempts = 0, delivery_started_at = NULL, delivered_at = NULL,
           smtp_response = NULL, sending_ip = NULL, next_at = ?2, retry_from = ?2,
           lane = (SELECT account_id FROM emails WHERE emails.id = email_id) || ':' || substr(address, instr(address, '@') + 1)`,
        [statusCode('queued'), opened.app.clock.now()],
      )
    })
    return key
  } finally {
    await opened.close()
  }
}
