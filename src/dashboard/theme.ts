/** @module The design as values: colours, sizes of type, spacing, radius; `style/theme.css` has the rest. */
import { createTheme, type MantineColorsTuple } from '@mantine/core'

/** The ten of a colour. */
const toShades = (text: string) => text.split(' ') as unknown as MantineColorsTuple

/** The blue of the icon is shade 7; white on 6 and darker has a contrast of 4.5 to 1. */
const BRAND = toShades('#eff4ff #dfe9fe #bfd3fc #98b9f9 #7ea8f8 #4a84ee #2768dc #0b57d0 #0a4ab1 #083b8d')

/** From paper to ink. */
const GRAY = toShades('#fafafb #f4f4f6 #ececf0 #e2e3e8 #cfd0d8 #a4a6b2 #777986 #5a5c69 #33343d #17181d')

/** From ink to paper: 7 is the page, 8 the navigation, 6 what lies on it, 4 and 5 lines. */
const DARK = toShades('#ebecf0 #a6a8b5 #85879a #5d5f6c #3a3b45 #2a2b32 #1d1e23 #131417 #0e0f11 #09090b')

const SIZE = { small: '0.75rem', body: '0.875rem', title: '1.25rem' }
const heading = (fontSize: string) => ({ fontSize, lineHeight: '1.4' })

export const theme = createTheme({
  fontFamily: "'Inter Variable', system-ui, sans-serif",
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, monospace',
  colors: { brand: BRAND, gray: GRAY, dark: DARK },
  primaryColor: 'brand',
  primaryShade: { light: 7, dark: 6 },
  black: GRAY[9],
  respectReducedMotion: true,
  cursorType: 'pointer',
  defaultRadius: '0.375rem',
  radius: { xs: '0.25rem', sm: '0.375rem', md: '0.5rem' },
  fontSizes: { xs: SIZE.small, sm: SIZE.body, md: SIZE.body, lg: SIZE.body, xl: SIZE.title },
  lineHeights: { xs: '1.4', sm: '1.45', md: '1.45', lg: '1.45', xl: '1.3' },
  spacing: { xs: '0.5rem', sm: '0.75rem', md: '1rem', lg: '1.5rem', xl: '2rem' },
  shadows: { xs: 'none', sm: 'none', md: 'var(--shadow)', lg: 'var(--shadow)', xl: 'var(--shadow)' },
  headings: {
    fontWeight: '600',
    sizes: {
      h1: heading(SIZE.title),
      h2: heading(SIZE.title),
      h3: heading(SIZE.body),
      h4: heading(SIZE.body),
      h5: heading(SIZE.body),
      h6: heading(SIZE.body),
    },
  },
  components: {
    InputWrapper: { defaultProps: { inputWrapperOrder: ['label', 'input', 'description', 'error'] } },
    Modal: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' } } },
    // Otherwise the heading of a dialog counts as a second banner of the page.
    ModalHeader: { defaultProps: { role: 'presentation' } },
  },
})
