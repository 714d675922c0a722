/**
 * @module Bundles the dashboard for browsers. `scripts/build.ts` does it once and embeds the result; a clone does it at
 * the first request, in about a second.
 */
import { basename } from 'node:path'

/** A file of the bundle, before compression. */
export interface BundledFile {
  /** Name with a hash of the content: its content never changes. */
  readonly name: string
  readonly content: Uint8Array
}

export interface DashboardBundle {
  /** Name of the script that starts the dashboard; it loads the others. */
  readonly script: string
  readonly style: string
  readonly files: readonly BundledFile[]
}

export const ASSETS_PATH = '/app/assets/'

/** @param folder `src/dashboard` @throws Error with the messages of the bundler */
export async function bundleDashboard(folder: string): Promise<DashboardBundle> {
  const { outputs } = await Bun.build({
    entrypoints: [`${folder}/main.tsx`],
    target: 'browser',
    format: 'esm',
    splitting: true,
    minify: true,
    publicPath: ASSETS_PATH,
    naming: { entry: '[name]-[hash].[ext]', chunk: 'part-[hash].[ext]', asset: '[name]-[hash].[ext]' },
    // Otherwise React and others are bundled with their development checks, and ask for the process of a server.
    define: { 'process.env.NODE_ENV': '"production"', 'process.env': '{}' },
  })
  const files = await Promise.all(
    outputs.map(async (output) => ({
      name: basename(output.path),
      content: new Uint8Array(await output.arrayBuffer()),
    })),
  )
  const find = (pattern: RegExp): string => {
    const found = files.find(({ name }) => pattern.test(name))
    if (!found) throw new Error(`the bundle of the dashboard has no file ${pattern.source}`)
    return found.name
  }
  return { script: find(/^main-\w+\.js$/), style: find(/^main-\w+\.css$/), files }
}
