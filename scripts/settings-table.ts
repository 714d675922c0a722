/** @module The README's table of settings, made from the settings themselves: `bun scripts/settings-table.ts` writes it, test/readme.test.ts compares it. */
import { loadConfig } from '../src/app/settings.ts'

const BEGIN = '<!-- settings -->'
const END = '<!-- /settings -->'

/** Defaults that depend on the machine or on other settings, in words. */
const DERIVED: Readonly<Record<string, string>> = {
  TASSIS_PUBLIC_URL: '`http://` and the HTTP address',
  TASSIS_HOSTNAME: "the machine's name",
}

/** The README with its table brought up to date. */
export function withSettingsTable(readme: string): string {
  const rows = loadConfig({}).report.map(({ variable, value, doc }) => {
    const fallback = DERIVED[variable] ?? (value === '' ? '' : `\`${value}\``)
    return `| \`${variable}\` | ${fallback} | ${doc.replaceAll('|', '\\|')} |`
  })
  const table = ['| Variable | Default | Meaning |', '|---|---|---|', ...rows].join('\n')
  const begin = readme.indexOf(BEGIN)
  const end = readme.indexOf(END)
  if (begin === -1 || end === -1) throw new Error(`the README has no ${BEGIN} ... ${END}`)
  return `${readme.slice(0, begin + BEGIN.length)}\n${table}\n${readme.slice(end)}`
}

if (import.meta.main) {
  const path = new URL('../README.md', import.meta.url).pathname
  await Bun.write(path, withSettingsTable(await Bun.file(path).text()))
}
