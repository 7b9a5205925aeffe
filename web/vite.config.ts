import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import { standalone } from './standalone';

export default defineConfig({
  plugins: [svelte(), standalone('see.html')],
  build: {
    outDir: process.env.QKV_PAGE_FOLDER ?? '../qkv/visual/page',
    emptyOutDir: false,
    cssCodeSplit: false,
    modulePreload: false,
    target: 'es2022',
    rolldownOptions: { input: 'src/main.ts' },
  },
  test: { include: ['tests/**/*.test.ts'], environment: 'node', testTimeout: 60_000 },
});
