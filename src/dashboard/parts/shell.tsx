/** @module The frame around every screen: navigation, search, account menu, keyboard shortcuts. */
import { VisuallyHidden } from '@mantine/core'
import { useDisclosure, useWindowEvent } from '@mantine/hooks'
import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useEffect } from 'react'
import { useLiveState } from '../api/live.tsx'
import { useSession } from '../api/session.tsx'
import { AccountMenu } from './account-menu.tsx'
import { IconMenu, IconSearch } from './icons.ts'
import { Keyboard, PALETTE_KEYS } from './keyboard.tsx'
import { listNavigationGroups } from './navigation.ts'
import { PasswordAgainProvider } from './password-again.tsx'
import { SecretDialog } from './secret-dialog.tsx'

export function Shell() {
  const [isOpen, menu] = useDisclosure(false)
  const [isHelpOpen, help] = useDisclosure(false)
  const [isPaletteOpen, palette] = useDisclosure(false)
  const path = useRouterState({ select: ({ location }) => location.pathname })
  // biome-ignore lint/correctness/useExhaustiveDependencies: the menu closes at each change of the path
  useEffect(() => menu.close(), [path])
  useWindowEvent('keydown', ({ key }) => key === 'Escape' && menu.close())
  return (
    <div className="shell">
      <a href="#main" className="skip">
        Skip to content
      </a>
      <nav className="sidebar" id="screens" aria-label="Screens" {...(isOpen && { 'data-open': '' })}>
        <Brand />
        <Navigation path={path} />
      </nav>
      {/* biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useKeyWithClickEvents: Esc and the button close it too */}
      <div className="backdrop" onClick={menu.close} />
      <header className="topbar">
        <button
          type="button"
          className="icon-button only-narrow"
          aria-label={isOpen ? 'Close the navigation' : 'Open the navigation'}
          aria-expanded={isOpen}
          aria-controls="screens"
          onClick={menu.toggle}
        >
          <IconMenu size="1.25rem" aria-hidden />
        </button>
        <Brand />
        <button type="button" className="search-box" onClick={palette.open}>
          <IconSearch size="1rem" aria-hidden />
          <span>Search</span>
          <kbd>{PALETTE_KEYS}</kbd>
        </button>
        <div className="topbar-end">
          <LiveIndicator />
          <AccountMenu onHelp={help.open} />
        </div>
      </header>
      <main className="main" id="main" tabIndex={-1}>
        <PasswordAgainProvider>
          <Outlet />
        </PasswordAgainProvider>
      </main>
      <Keyboard
        palette={{ isOpen: isPaletteOpen, open: palette.open, close: palette.close }}
        help={{ isOpen: isHelpOpen, open: help.open, close: help.close }}
      />
      <SecretDialog />
    </div>
  )
}

const Brand = () => (
  <Link to="/" className="brand" aria-label="Tassis">
    <img src="/icon.svg" alt="" width={22} height={22} />
    <span className="brand-name">Tassis</span>
  </Link>
)

function Navigation({ path }: { readonly path: string }) {
  // A person is the mail to an address.
  const here = path.replace('/people/', '/emails/')
  return listNavigationGroups(useSession()).map(({ label: group, items }) => (
    <div key={group ?? ''}>
      {group !== undefined && <p className="nav-group">{group}</p>}
      <ul className="nav-list">
        {items.map(({ label, to, icon: Icon }) => {
          const isHere = to === '/' ? path === '/' : here === to || here.startsWith(`${to}/`)
          return (
            <li key={to}>
              <Link
                to={to}
                className="nav-link"
                // Otherwise the start counts as the page of all screens below it.
                activeOptions={{ exact: true }}
                {...(isHere && { 'aria-current': 'page' })}
              >
                <Icon size="1.125rem" stroke={1.75} aria-hidden />
                {label}
              </Link>
            </li>
          )
        })}
      </ul>
    </div>
  ))
}

function LiveIndicator() {
  const state = useLiveState()
  return (
    <span role="status" className="live">
      {state === 'live' ? (
        <VisuallyHidden>Live</VisuallyHidden>
      ) : state === 'polling' ? (
        <span title="Refreshed every 15 seconds">Not live</span>
      ) : null}
    </span>
  )
}
