/** @module Inter, its latin letters: others are those of the system. In a style sheet the bundler would make it a part of it. */
import inter from '@fontsource-variable/inter/files/inter-latin-wght-normal.woff2'

/** As its package has it. */
const LATIN =
  'U+0000-00FF,U+0131,U+0152-0153,U+02BB-02BC,U+02C6,U+02DA,U+02DC,U+0304,U+0308,U+0329,U+2000-206F,U+20AC,U+2122,U+2191,U+2193,U+2212,U+2215,U+FEFF,U+FFFD'

export const loadFont = () =>
  document.fonts.add(
    new FontFace('Inter Variable', `url(${inter})`, { display: 'swap', weight: '100 900', unicodeRange: LATIN }),
  )
