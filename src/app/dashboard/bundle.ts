/** @module Bundles the dashboard for browsers, in about a second. Used at build time, and once in a run from sources. */
import { basename, join } from 'node:path'
import { ASSETS_PATH } from './routes.ts'

/**
 * The files of the dashboard. Their names have a hash of the content: the content of a name never changes.
 * @throws Error with the messages of the bundler
 */
export async function bundleDashboard() {
  const { outputs } = await Bun.build({
    entrypoints: ['main.tsx', 'passkey-page.ts'].map((name) => join(import.meta.dir, '../../dashboard', name)),
    target: 'browser',
    format: 'esm',
    splitting: true,
    minify: true,
    publicPath: ASSETS_PATH,
    naming: { entry: '[name]-[hash].[ext]', chunk: 'part-[hash].[ext]', asset: '[name]-[hash].[ext]' },
    // Otherwise React and others are bundled with their development checks, and ask for the process of a server.
    define: { 'process.env.NODE_ENV': '"production"', 'process.env': '{}' },
  })
  return Promise.all(
    outputs.map(async (output) => ({
      name: basename(output.path),
      content: new Uint8Array(await output.arrayBuffer()),
    })),
  )
}
