/** @module The entry point of the dashboard. */
import './style/mantine.css'
import './style/theme.css'
import './style/shell.css'
import './style/parts.css'
import './style/screens.css'
import inter from '@fontsource-variable/inter/files/inter-latin-wght-normal.woff2'
import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { TassisError } from '#client/client.ts'
import { LiveProvider } from './api/live.tsx'
import { SessionProvider } from './api/session.tsx'
import { router } from './router.tsx'
import { theme } from './theme.ts'

/** The Content-Security-Policy allows style elements with this nonce only. */
const nonce = document.querySelector<HTMLStyleElement>('style[nonce]')?.nonce ?? ''
setNonce(nonce)

/**
 * Of Inter, as its package has it: the latin letters, others are those of the system. In a style sheet the bundler would
 * make the font a part of it.
 */
const unicodeRange =
  'U+0000-00FF,U+0131,U+0152-0153,U+02BB-02BC,U+02C6,U+02DA,U+02DC,U+0304,U+0308,U+0329,U+2000-206F,U+20AC,U+2122,U+2191,U+2193,U+2212,U+2215,U+FEFF,U+FFFD'
document.fonts.add(
  new FontFace('Inter Variable', `url(${inter})`, { display: 'swap', weight: '100 900', unicodeRange }),
)

const MAX_RETRIES = 2
const queries = new QueryClient({
  defaultOptions: {
    // By default, requests wait without a word while the browser counts itself as offline. The server may be this machine.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      refetchOnReconnect: true,
      staleTime: 5000,
      // An error that the same request would meet again is shown immediately.
      retry: (count, error) =>
        count < MAX_RETRIES && error instanceof TassisError && (error.status === 0 || error.status === 503),
    },
  },
})

const RELOADED_KEY = 'tassis-reloaded'
// After an upgrade the files of the previous version are gone: the page is loaded once more.
window.addEventListener('unhandledrejection', ({ reason }) => {
  if (reason instanceof TypeError && /dynamically imported module/.test(reason.message)) reloadOnce()
})

function reloadOnce(): void {
  const last = Number(sessionStorage.getItem(RELOADED_KEY))
  if (Date.now() - last < 60_000) return
  // Without an answer the browser would replace the page, and what was typed on it, by one of its own.
  void fetch('/icon.svg', { cache: 'no-store' }).then(
    () => {
      sessionStorage.setItem(RELOADED_KEY, String(Date.now()))
      location.reload()
    },
    () => undefined,
  )
}

const element = document.getElementById('root')
if (element)
  createRoot(element).render(
    <StrictMode>
      <MantineProvider
        theme={theme}
        defaultColorScheme="auto"
        deduplicateCssVariables={false}
        getStyleNonce={() => nonce}
      >
        <QueryClientProvider client={queries}>
          <SessionProvider>
            <LiveProvider>
              <RouterProvider router={router} />
            </LiveProvider>
          </SessionProvider>
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  )
